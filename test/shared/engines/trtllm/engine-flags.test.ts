import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ConfigError, resolveConfig } from '../../../../shared/config/index.ts';
import { trtllmLaunch } from '../../../../shared/engines/trtllm/launch.ts';
import { RECORDED_TRTLLM, recordedFlags, sampleOf } from '../../../support/engine-flags.ts';

const PORTS = { http: 8001, events: 20080, replay: 20081 };

function resolved(...flags: readonly string[]) {
  return resolveConfig('worker', ['--engine=trtllm', '--model=org/model', ...flags], {});
}

function problemsOf(...flags: readonly string[]) {
  try {
    resolved(...flags);
  } catch (thrown) {
    return (thrown as ConfigError).problems;
  }
  return [];
}

describe('a worker that starts TensorRT-LLM', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stator-trtllm-flags-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const started = (...flags: readonly string[]) => trtllmLaunch(resolved(...flags), folder).command(PORTS).args;

  it('gives it nothing of its own but an address and its options', () => {
    const own = ['org/model', '--host', '127.0.0.1', '--port', '8001', '--extra_llm_api_options'];
    expect(started()).toEqual([...own, join(folder, 'options.yaml')]);
  });

  it('passes each of its flags on, under the name that it reads', () => {
    const bare = started();
    for (const flag of recordedFlags(RECORDED_TRTLLM)) {
      for (const spelling of flag.flags) {
        const at = bare.indexOf(spelling.replace(/^--config$/, '--extra_llm_api_options'));
        const usual = at < 0 ? bare : [...bare.slice(0, at), ...bare.slice(at + 2)];
        const [, ...values] = sampleOf(flag, spelling);
        for (const written of [spelling, spelling.replaceAll('_', '-')]) {
          expect(started(written, ...values)).toEqual([...usual, spelling, ...values]);
          expect(started('--', written, ...values)).toEqual([...usual, spelling, ...values]);
        }
      }
    }
  });

  it('passes on what is of another release as it is', () => {
    expect(started('--future_flag', '3', '--other-flag=x').slice(-3)).toEqual(['--future_flag', '3', '--other-flag=x']);
  });

  it('reads what both know, under the names of either', () => {
    const flags = ['--max_batch_size', '4', '--max-model-len=512', '--tp_size=2', '--max-num-batched-tokens', '64'];
    expect(resolved(...flags).settings).toMatchObject({
      maxNumSeqs: 4,
      maxModelLen: 512,
      tensorParallelSize: 2,
      maxNumBatchedTokens: 64,
    });
    const passed = '--max_batch_size 4 --max_seq_len 512 --tp_size=2 --max_num_tokens 64';
    expect(started(...flags).join(' ')).toMatch(new RegExp(`options.yaml ${passed}$`));
  });

  it('takes the model as its command does, and says of flags that have no effect', () => {
    const config = resolveConfig('worker', ['--engine=trtllm', 'org/other', '--trust_remote_code', '--seed=1'], {});
    expect(trtllmLaunch(config, folder).command(PORTS).args[0]).toBe('org/other');
    expect(config.warnings).toEqual(['--seed has no effect: TensorRT-LLM has no such flag']);
    expect(resolved('--block-size=16', '--no-enable-prefix-caching').warnings).toEqual([]);
  });

  it('takes a file of them as well, under names with hyphens or underscores', () => {
    const file = join(folder, 'engine.json');
    writeFileSync(file, '{"max-batch-size":8,"trust_remote_code":true,"future-key":1,"enable_chunked_prefill":false}');
    const args = started('--engine-config-json', file, '--backend', 'pytorch').join(' ');
    expect(args).toMatch(/options.yaml --max_batch_size 8 --trust_remote_code --future_key 1 --backend pytorch$/);
  });

  it('refuses a misspelt flag of ours, and flags for an engine that runs already', () => {
    expect(problemsOf('--disagregation-mode=prefill')).toEqual([expect.stringContaining('--disaggregation-mode')]);
    expect(problemsOf('--engine-url=http://127.0.0.1:1', '--backend', 'pytorch')).toEqual([
      expect.stringContaining('--backend is a flag of TensorRT-LLM; the engine of --engine-url is already running'),
    ]);
  });
});
