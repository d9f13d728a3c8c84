import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import { flagsOfEngine } from '../../../../shared/config/command-line/engine-flags.ts';
import { ConfigError, resolveConfig } from '../../../../shared/config/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { sglangLaunch } from '../../../../shared/engines/sglang/launch.ts';
import { vllm, vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { RECORDED_ENGINES, RECORDED_TRTLLM, recordedFlags, sampleOf } from '../../../support/engine-flags.ts';
import { freePort } from '../../../support/index.ts';

const PORTS = { http: 8001, events: 20080, replay: 20081 };
const FAKE = fileURLToPath(new URL('fake-engine.mjs', import.meta.url));

type EngineName = 'vllm' | 'sglang';

function resolved(engine: EngineName, flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const named = flags.some((flag) => /^--model(-path)?($|=)/.test(flag)) ? [] : ['--model', 'org/model'];
  const chosen = env.STATOR_ENGINE === undefined ? ['--engine', engine] : [];
  return resolveConfig('worker', [...chosen, ...named, ...flags], env);
}

/** What the engine is started with. */
function started(engine: EngineName, flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const config = resolved(engine, flags, env);
  return (engine === 'vllm' ? vllmLaunch(config) : sglangLaunch(config)).command(PORTS).args;
}

function problemsOf(engine: EngineName, flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  try {
    resolved(engine, flags, env);
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.problems;
    throw thrown;
  }
  return [];
}

/** `args` without a flag and its value. */
function without(args: readonly string[], flag: string): readonly string[] {
  const at = args.indexOf(flag);
  return at < 0 ? args : [...args.slice(0, at), ...args.slice(at + 2)];
}

/** Flags that Stator writes itself, by what the user said. */
const WRITTEN =
  /^--(model|model-path|served-model-name|kv-transfer-config|kv-events-config|headless|disaggregation-mode)$/;
const REFUSED = /^--(uds|grpc|ssl-keyfile|ssl-certfile|grpc-mode|smg-grpc-mode)$/;
/** Without a cache nobody asks for its events. */
const CACHELESS = /^--(no-enable|disable)-prefix-caching$|^--disable-radix-cache$/;

describe.each(RECORDED_ENGINES)('a worker that starts %s', (release) => {
  const engine = release.startsWith('vllm') ? 'vllm' : 'sglang';
  const every = recordedFlags(release).flatMap((flag) =>
    flag.flags.map((spelling) => ({ spelling, sample: sampleOf(flag, spelling) })),
  );

  it('gives it nothing of its own but what drives it', () => {
    const own = started(engine, []).filter((argument) => argument.startsWith('--'));
    const drives = ['--host', '--port', '--served-model-name', '--kv-events-config'];
    if (engine === 'sglang') drives.push('--model-path', '--enable-metrics');
    expect(own.toSorted()).toEqual(drives.toSorted());
  });

  it('passes each of its flags on, in the place and the words that it was given in', () => {
    const bare = started(engine, []);
    const wrong = every.flatMap(({ spelling, sample }) => {
      if (WRITTEN.test(spelling) || REFUSED.test(spelling)) return [];
      const usual = CACHELESS.test(spelling) ? without(bare, '--kv-events-config') : bare;
      const expected = /^--(host|port)$/.test(spelling) ? without(usual, spelling) : usual;
      const before = [...sample, '--load-format', 'dummy'];
      const behind = ['--', '--future-flag', '-3', ...sample];
      const text = (args: readonly string[]): string => args.join('\n');
      const isSame =
        text(started(engine, before)) === text([...expected, ...before]) &&
        text(started(engine, behind)) === text([...expected, ...behind.slice(1)]);
      return isSame ? [] : [{ spelling, args: started(engine, before) }];
    });
    expect(wrong).toEqual([]);
  });

  it('refuses those by which it could not be driven, with what to use', () => {
    const refused = every.filter(({ spelling }) => REFUSED.test(spelling));
    expect(refused.length).toBeGreaterThan(2);
    for (const { spelling, sample } of refused) {
      for (const flags of [sample, ['--', ...sample]]) {
        expect(problemsOf(engine, flags)).toEqual([expect.stringContaining(`${spelling} cannot be passed on: `)]);
      }
    }
  });

  it('takes a file of them as well, under names with hyphens or underscores', () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-flags-'));
    const file = join(folder, 'engine.json');
    writeFileSync(
      file,
      '{"load_format":"dummy","enable-lora":true,"max_num_seqs":8,"future_key":[1,2],"other":{"a":1}}',
    );
    const args = started(engine, ['--engine-config-json', file, '--max-loras', '3']).join(' ');
    const seqs = engine === 'vllm' ? '--max-num-seqs' : '--max-running-requests';
    const loras = engine === 'vllm' ? '--max-loras' : '--max-loras-per-batch';
    expect(args).toContain(`--load-format dummy --enable-lora ${seqs} 8 --future-key 1 2 --other {"a":1} ${loras} 3`);
    writeFileSync(file, '{"max_num_seq":8,"endpoint":"a.b.c","router_mode":"kv"}');
    expect(problemsOf(engine, ['--engine-config-json', file])).toEqual([
      `--engine-config-json ${file}: unknown flag --max-num-seq; did you mean --max-num-seqs?`,
      expect.stringContaining(`--engine-config-json ${file}: --endpoint is a flag of Stator, not of`),
      expect.stringContaining('--router-mode belongs to stator frontend'),
    ]);
    rmSync(folder, { recursive: true });
  });
});

describe('flags of an engine', () => {
  it.each([...RECORDED_ENGINES, RECORDED_TRTLLM] as const)('are all known of %s', (release) => {
    const names = flagsOfEngine(release.split('-')[0])?.names ?? new Set();
    const spellings = recordedFlags(release).flatMap(({ flags }) => flags);
    const missing = spellings.filter((flag) => !names.has(flag.startsWith('--') ? flag.replaceAll('_', '-') : flag));
    expect(spellings.length).toBeGreaterThan(30);
    expect(missing).toEqual([]);
  });

  it('are read where Stator has use for them, under every name that the engine has', () => {
    const { settings } = resolved('vllm', ['-tp', '2', '-dp=3', '--max_num_seqs', '5', '--no-enable-lora']);
    expect(settings).toMatchObject({ tensorParallelSize: 2, dataParallelSize: 3, maxNumSeqs: 5, enableLora: false });
    const sglang = resolved('sglang', ['--tp', '2', '--dp-size=3', '--page-size', '16', '--disable-radix-cache']);
    expect(sglang.settings).toMatchObject({ tensorParallelSize: 2, dataParallelSize: 3, blockSize: 16 });
    expect(sglang.settings.enablePrefixCaching).toBe(false);
  });

  it('may have values that Stator has no reading for', () => {
    const flags = [
      '--max-model-len',
      'auto',
      '--max-num-batched-tokens',
      '8k',
      '--kv-cache-dtype',
      'fp4',
      '--seed',
      '-1',
    ];
    const { settings, given, warnings } = resolved('vllm', flags);
    expect(started('vllm', flags).slice(-flags.length)).toEqual(flags);
    expect([settings.maxModelLen, given.has('maxNumBatchedTokens'), warnings]).toEqual([undefined, false, []]);
  });

  it('may be those of one value, of several, of JSON, of fields, of one letter', () => {
    const flags = [
      ...['-O3', '-cc.mode', '3', '--compilation-config.pass_config.fuse_norm_quant', 'true'],
      ...[
        '--speculative-config',
        '{"method":"ngram","num_speculative_tokens":-5}',
        '--cudagraph_capture_sizes',
        '1',
        '2',
      ],
      ...[
        '--rope-scaling={"a": "b c"}',
        '--swap-space',
        '-1',
        '--lora-modules',
        'a=/x',
        '{"name":"b"}',
        '--enforce-eager',
      ],
    ];
    expect(started('vllm', flags).slice(-flags.length)).toEqual(flags);
  });

  it('are passed on, from whichever setting the engine is named', () => {
    const args = started('sglang', ['--mem-fraction-static', '0.7'], { STATOR_ENGINE: 'sglang' });
    expect(args.slice(-2)).toEqual(['--mem-fraction-static', '0.7']);
  });

  it('go to the engine under its own name for a setting of ours, and to no engine that has none', () => {
    const ours = ['--max-num-seqs=4', '--max-model-len', '512', '--seed', '3', '--no-enable-prefix-caching'];
    expect(started('sglang', ours).join(' ')).toContain(
      '--max-running-requests 4 --context-length 512 --random-seed 3 --disable-radix-cache',
    );
    expect(resolved('sglang', ['--preemption-mode', 'lifo', '--kv-transfer-config={}']).warnings).toEqual([
      '--preemption-mode has no effect: SGLang has no such flag',
      '--kv-transfer-config has no effect: SGLang has no such flag',
    ]);
  });

  it('that are misspelt flags of ours are refused with what was meant, unless the engine has just that name', () => {
    expect(problemsOf('vllm', ['--max-num-seq', '4', '--disagregation-mode=prefill'])).toEqual([
      'unknown flag --max-num-seq; did you mean --max-num-seqs? After -- it goes to vLLM unchanged',
      'unknown flag --disagregation-mode; did you mean --disaggregation-mode? After -- it goes to vLLM unchanged',
    ]);
    expect(started('vllm', ['--', '--max-num-seq', '4']).slice(-2)).toEqual(['--max-num-seq', '4']);
    expect(problemsOf('vllm', ['--router-mode=kv'])).toEqual([
      expect.stringMatching(/^--router-mode belongs to stator frontend.*, not to stator worker$/),
    ]);
  });

  it('name the model as vLLM’s command does, and the names that it is served under', () => {
    const args = started('vllm', ['--dtype', 'auto', '--served-model-name', 'a', 'b', '--model=org/x']);
    expect(args.slice(0, 2)).toEqual(['serve', 'org/x']);
    expect(args.join(' ')).toContain('--served-model-name a b --kv-events-config');
    const config = resolveConfig('worker', ['--engine=vllm', 'org/model', '--dtype', 'auto'], {});
    expect(vllmLaunch(config).command(PORTS).args.slice(0, 2)).toEqual(['serve', 'org/model']);
    expect(problemsOf('vllm', ['org/other'])).toEqual([expect.stringContaining('unexpected argument "org/other"')]);
  });

  it('name the model of SGLang by --model-path, beside --model the folder of its files', () => {
    expect(started('sglang', ['--model-path', 'org/x']).slice(0, 4)).toEqual([
      '-m',
      'sglang.launch_server',
      '--model-path',
      'org/x',
    ]);
    const { settings } = resolveConfig('worker', ['--engine=sglang', '--model=org/x', '--model-path', tmpdir()], {});
    expect([settings.model, settings.modelPath]).toEqual(['org/x', tmpdir()]);
  });

  it('for reading tool calls and reasoning are those of frontends, too, unless these have their own', () => {
    const flags = ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes', '--reasoning-parser', 'deepseek_r1'];
    expect(resolved('vllm', flags).settings).toMatchObject({
      toolCallParser: 'hermes',
      reasoningParser: 'deepseek_r1',
    });
    expect(started('vllm', flags).slice(-flags.length)).toEqual(flags);
    expect(resolved('vllm', [...flags, '--dyn-tool-call-parser=pythonic']).settings.toolCallParser).toBe('pythonic');
    const unread = resolved('vllm', ['--tool-call-parser', 'cohere2']);
    expect([unread.settings.toolCallParser, unread.warnings]).toEqual([
      undefined,
      [
        '--tool-call-parser "cohere2" goes only to the engine: frontends read tool calls by --dyn-tool-call-parser, ' +
          'or leave chats to the engine with --dyn-chat-processor',
      ],
    ]);
  });

  it('cannot reach an engine that runs already', () => {
    const url = '--engine-url=http://127.0.0.1:1';
    expect(problemsOf('vllm', [url, '--load-format', 'dummy'])).toEqual([
      '--load-format is a flag of vLLM; the engine of --engine-url is already running: give the flag where that engine is started',
    ]);
    expect(problemsOf('vllm', [url, '--', '--load-format', 'dummy'])).toEqual([
      expect.stringContaining('--load-format dummy cannot be passed on'),
    ]);
  });

  it('are named when the engine accepts none of them', () => {
    const mocker = (...flags: readonly string[]) => {
      try {
        resolveConfig('worker', ['--engine=mocker', ...flags], {});
      } catch (thrown) {
        return (thrown as ConfigError).problems;
      }
      return [];
    };
    expect(mocker('--load-format', 'dummy', '--mamba-backend=x', '--tokenizer-mode=slow')).toEqual([
      'unknown flag --load-format: --engine vllm and --engine sglang would pass it on, but --engine mocker has no such flag',
      'unknown flag --mamba-backend: --engine vllm and --engine sglang would pass it on, but --engine mocker has no such flag',
      'unknown flag --tokenizer-mode: --engine vllm and --engine sglang would pass it on, but --engine mocker has no such flag',
    ]);
    for (const flag of ['--lora-space', '--swap-space', '--name-spec', '--devices']) {
      expect(mocker(flag, 'x')).toEqual([`unknown flag ${flag}; stator worker --help lists all`]);
    }
  });

  it('leave the engine’s variables as they are, where the user has set them', () => {
    const plan = (env: Readonly<Record<string, string>>, ...flags: readonly string[]) =>
      vllmLaunch(resolved('vllm', ['--enable-lora', ...flags], env)).command(PORTS).env;
    expect(plan({})).toMatchObject({ VLLM_SERVER_DEV_MODE: '1', VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' });
    const own = plan({
      VLLM_SERVER_DEV_MODE: '0',
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'False',
      VLLM_LOG_STATS_INTERVAL: '-1',
    });
    expect(own).toEqual({ PYTHONHASHSEED: '0' });
    // Development routes are for this machine.
    expect(plan({}, '--host', '0.0.0.0')).not.toHaveProperty('VLLM_SERVER_DEV_MODE');
  });

  it('replace what Stator would add for newer releases', () => {
    const flags = ['--shutdown-timeout', '60', '--no-enable-prompt-tokens-details', '--enable-scale-out'];
    const words = vllmLaunch(resolved('vllm', flags)).optional.flatMap((optional) => optional.words);
    expect(words).toEqual(['--disable-uvicorn-access-log']);
  });
});

describe('an engine that is started with flags of its own', () => {
  const engines: Engine[] = [];
  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop();
  });

  it('gets every flag of its release, and what was passed on is one line of the log', async () => {
    const all = recordedFlags('vllm-0.33.0').flatMap((flag) => {
      const [spelling = ''] = flag.flags;
      if (WRITTEN.test(spelling) || REFUSED.test(spelling) || /^--(host|port)$/.test(spelling)) return [];
      if (spelling === '--tokenizer') return [spelling, builtinModelPath()]; // has to be on this machine
      return sampleOf(flag, spelling);
    });
    const { logger, lines } = captureLogger();
    const context = { clock: systemClock, logger, at: 0, onDroppedKvEvents: () => {} };
    const flags = ['--kv-events-config={"enable_kv_cache_events":false}', '--api-key', 'secret-key', ...all];
    const port = await freePort();
    const command = `--engine-command=${process.execPath} ${FAKE}`;
    const { engine } = await vllm.open(
      resolved('vllm', [
        command,
        `--model-path=${builtinModelPath()}`,
        '--model=org/model',
        '--port',
        `${port}`,
        ...flags,
      ]),
      context,
    );
    engines.push(engine);
    await engine.start(new AbortController().signal);
    const told = (await (await fetch(`http://127.0.0.1:${port}/args`)).json()) as { args: readonly string[] };
    const own = ['serve', 'org/model', '--host', '127.0.0.1', '--served-model-name', 'org/model'];
    expect(told.args).toEqual([
      ...own,
      '--kv-events-config',
      flags[0]?.slice(19),
      '--port',
      `${port}`,
      ...flags.slice(1),
    ]);
    const passed = lines.filter(({ message }) => message === 'arguments passed on to the engine');
    expect(passed).toHaveLength(1);
    const text = String(passed[0]?.fields?.flags);
    expect(text).toContain(`--port ${port} --api-key ***`);
    expect(text).toContain('--gpu-memory-utilization 0.5');
    expect(JSON.stringify(lines)).not.toContain('secret-key');
  });

  it('is asked by the best way that it has, also where it hides the list of its routes', async () => {
    const { logger, lines } = captureLogger();
    const context = { clock: systemClock, logger, at: 0, onDroppedKvEvents: () => {} };
    const command = `--engine-command=${process.execPath} ${FAKE}`;
    const flags = [command, `--model-path=${builtinModelPath()}`, '--model=org/model', '--disable-fastapi-docs'];
    const { engine } = await vllm.open(resolved('vllm', flags), context);
    engines.push(engine);
    await engine.start(new AbortController().signal);
    const up = lines.find(({ message }) => message === 'engine is up');
    expect(up?.fields?.tokens).toBe('/inference/v1/generate');
  });
});
