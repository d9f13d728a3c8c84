import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, resolveConfig } from '../../../../shared/config/index.ts';
import { applyEngineArgs, readEngineArgs } from '../../../../shared/worker/process/engine-args.ts';

const folder = mkdtempSync(join(tmpdir(), 'stator-engine-args-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function apply(args: unknown, argv: readonly string[] = []) {
  return applyEngineArgs(resolveConfig('worker', ['--engine=mocker', ...argv], {}), args, 'FILE');
}

function problemsOf(args: unknown): readonly string[] {
  try {
    apply(args);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('mocker keys of --extra-engine-args', () => {
  it('stand in for their flags', () => {
    const { settings, warnings } = apply({
      num_gpu_blocks: 100,
      dp_size: 2,
      worker_type: 'prefill',
      enable_prefix_caching: false,
      kv_transfer_timing_mode: 'destination_missing',
      bootstrap_port: 9000,
      zmq_kv_events_port: 5557,
      handoff_session_timeout_ms: 1000,
      reasoning: { start_thinking_token_id: 1, end_thinking_token_id: 2, thinking_ratio: 0.5 },
      startup_time: 0.5,
    });
    expect(settings).toMatchObject({
      engine: 'mocker',
      numGpuBlocksOverride: 100,
      dataParallelSize: 2,
      disaggregationMode: 'prefill',
      enablePrefixCaching: false,
      kvTransferTimingMode: 'destination_missing',
      bootstrapPorts: [9000],
      zmqKvEventsPorts: [5557],
      handoffSessionTimeoutMs: 1000,
      reasoning: { thinking_ratio: 0.5 },
      startupTimeSecs: 0.5,
      blockSize: 64,
    });
    expect(warnings).toEqual([]);
  });

  it('win over flags, and say over which', () => {
    const { settings, warnings } = apply({ max_num_seqs: 8, speedup_ratio: 2 }, ['--max-num-seqs=4', '--seed=1']);
    expect(settings).toMatchObject({ maxNumSeqs: 8, speedupRatio: 2, seed: 1 });
    expect(warnings).toEqual(['FILE overrides --max-num-seqs']);
  });

  it('bring the block size of the engine that they name, unless one was given', () => {
    expect(apply({ engine_type: 'sglang' }).settings.blockSize).toBe(1);
    expect(apply({ engine_type: 'sglang' }, ['--block-size=16']).settings.blockSize).toBe(16);
    expect(apply({ engine_type: 'trtllm', block_size: 8 }, ['--block-size=16']).settings.blockSize).toBe(8);
  });

  it('unset what may be unset, and nothing else, with null', () => {
    expect(apply({ max_model_len: null }, ['--max-model-len=100']).settings.maxModelLen).toBeUndefined();
    expect(problemsOf({ num_gpu_blocks: null })).toEqual(['FILE: num_gpu_blocks must be a number, got null']);
  });

  it('are refused when unknown or out of range, all at once', () => {
    expect(problemsOf({ num_gpu_block: 3, nonsense_of_mine: 1, block_size: '16' })).toEqual([
      'FILE: unknown key "num_gpu_block"; did you mean num_gpu_blocks?',
      expect.stringContaining('FILE: unknown key "nonsense_of_mine"; known are engine_type, num_gpu_blocks'),
      'FILE: block_size must be a number, got "16"',
    ]);
    expect(problemsOf({ block_size: 0 })).toEqual([expect.stringMatching(/^FILE: --block-size "0": out of range/)]);
    expect(problemsOf([1])).toEqual(['FILE: expected a JSON object']);
    expect(problemsOf({ toString: 1 })).toHaveLength(1);
  });

  it('warn where they have no effect yet', () => {
    expect(apply({ aic_backend: 'vllm', num_g2_blocks: 4 }).warnings).toEqual([
      'FILE sets aic_backend, which is not built yet: no effect',
      'FILE sets num_g2_blocks, which is not built yet: no effect',
    ]);
    const simulated = applyEngineArgs(
      resolveConfig('simulate', [], {}),
      { num_gpu_blocks: 9, bootstrap_port: 1, worker_type: 'prefill' },
      'FILE',
    );
    expect(simulated.settings.numGpuBlocks).toBe(9);
    expect(simulated.warnings).toEqual(['FILE sets bootstrap_port, which has no effect in a simulation']);
  });

  it('come from a file that says what is wrong with it', async () => {
    const path = join(folder, 'args.json');
    writeFileSync(path, '{"block_size": 16}');
    expect(await readEngineArgs('--extra-engine-args', path)).toEqual({ block_size: 16 });
    writeFileSync(path, '{');
    await expect(readEngineArgs('--extra-engine-args', path)).rejects.toThrow(
      `--extra-engine-args ${path} cannot be read`,
    );
  });
});
