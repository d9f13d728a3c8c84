import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { sglang } from '../../../../shared/engines/sglang/launch.ts';
import type { OpenedEngine } from '../../../../shared/engines/types.ts';
import { vllm } from '../../../../shared/engines/vllm/launch.ts';
import { type CapturedLine, captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { isRunning, spawnTypeScript, waitUntil } from '../../../support/index.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';

const never = new AbortController().signal;
const FAKE = fileURLToPath(new URL('fake-engine.mjs', import.meta.url));

/** No test asks the hub of models. */
const OFFLINE = { HF_HUB_OFFLINE: '1', HF_HOME: '/nowhere' };

const SETTINGS = [
  '--engine=vllm',
  '--model=/models/fake',
  `--model-path=${builtinModelPath()}`,
  '--served-model-name=fake',
  '--max-num-seqs=4',
  '--max-num-batched-tokens=512',
  '--kv-events-config={"enable_kv_cache_events":false}',
];

describe('an engine that the worker starts', () => {
  const engines: Engine[] = [];
  let lines: readonly CapturedLine[] = [];

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop();
  });

  async function create(env: Readonly<Record<string, string>> = {}, args: readonly string[] = []): Promise<Engine> {
    const command = ['env', ...Object.entries(env).map((each) => each.join('=')), process.execPath, FAKE];
    const flags = [...SETTINGS, `--engine-command=${command.join(' ')}`, ...args];
    const { engine } = await open(flags);
    engines.push(engine);
    return engine;
  }

  function open(flags: readonly string[], kind = 'vllm'): Promise<OpenedEngine> {
    const { logger, lines: captured } = captureLogger();
    lines = captured;
    const context = { clock: systemClock, logger, at: 0, onDroppedKvEvents: () => {} };
    return (kind === 'vllm' ? vllm : sglang).open(resolveConfig('worker', flags, OFFLINE), context);
  }

  const helperPid = (): number => {
    const words = lines.map(({ message }) => /helper (\d+)/.exec(message)?.[1]).find((pid) => pid !== undefined);
    return Number(words);
  };

  /** The engine's own arguments of each start. */
  const starts = (): readonly string[] =>
    lines
      .filter(({ message }) => message === 'starting the engine')
      .map(({ fields }) => String(fields?.args).split(' serve ')[1] ?? '');

  it('serves, and its output is in our log by its own levels', async () => {
    const engine = await create();
    expect(await engine.start(never)).toMatchObject({
      modelName: 'fake',
      contextLength: 512,
      kvBlockSizeTokens: 16,
      totalKvBlocks: 64,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 512,
    });
    const sink = new RecordingSink();
    engine.generate(tokenRequest([1]), sink, never);
    await sink.closed;
    expect(sink.ids).toEqual([[65, 66, 67]]);
    expect(lines).toContainEqual(expect.objectContaining({ level: 'warn', message: 'WARNING 11-22 something is odd' }));
    expect(lines).toContainEqual(expect.objectContaining({ level: 'info', message: 'INFO ready' }));
  });

  it.each([
    [
      'org/name',
      'org/name is not in /nowhere/hub, and HF_HUB_OFFLINE forbids to download it: download it where the hub can be reached (hf download org/name). Or ',
    ],
    ['/nowhere/name', ''],
  ])('is not started for %s, whose files are not on this machine', async (model, download) => {
    const opening = open(['--engine=vllm', `--model=${model}`, `--engine-command=${process.execPath} ${FAKE}`]);
    await expect(opening).rejects.toThrow(
      `the model's files are not on this machine (looked for ${model}), and frontends tokenize with them: ${download}` +
        'give their folder with --model-path, or let the engine tokenize (--use-vllm-tokenizer)',
    );
    expect(lines).toEqual([]);
  });

  it('is started for a model of which it alone has the files, where it tokenizes itself', async () => {
    const text = ['--use-vllm-tokenizer', `--engine-command=${process.execPath} ${FAKE}`];
    const { engine, model } = await open(['--engine=vllm', '--model=org/name', ...text]);
    engines.push(engine);
    const info = await engine.start(never);
    expect(info.modelName).toBe('org/name');
    expect(typeof model === 'function' ? await model(info) : model).toEqual({});
  });

  describe.each([
    ['vllm', '--tokenizer'],
    ['sglang', '--tokenizer-path'],
  ])('of %s with %s', (kind, flag) => {
    const flags = [`--engine=${kind}`, `--model=${builtinModelPath()}`, `--engine-command=${process.execPath} ${FAKE}`];

    it('has the tokenizer of that folder in its card, as the engine has', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tokenizer-'));
      try {
        writeFileSync(join(folder, 'tokenizer.json'), '{"version":"1.0"}');
        const { model } = await open([...flags, `${flag}=${folder}`], kind);
        if (typeof model !== 'function') throw new Error('its files are read once it is up');
        const { files = {} } = await model({
          contextLength: 512,
          kvBlockSizeTokens: 16,
          totalKvBlocks: 64,
          maxNumSeqs: undefined,
          maxNumBatchedTokens: undefined,
          dataParallelSize: 1,
          modelInput: 'Tokens',
          modelType: ['Chat'],
          publishesKvEvents: false,
        });
        expect(files['tokenizer.json']?.path).toBe(join(folder, 'tokenizer.json'));
        expect(files['config.json']?.path).toBe(join(builtinModelPath(), 'config.json'));
        expect(Object.values(files).filter(({ path }) => path.endsWith('tokenizer_config.json'))).toEqual([]);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });

    it('is not started where that tokenizer is not on this machine', async () => {
      await expect(open([...flags, flag, 'org/other'], kind)).rejects.toThrow(
        `the files of ${flag} org/other are not on this machine, and frontends have to tokenize as the engine does`,
      );
    });
  });

  it.each([[builtinModelPath()], ['org/name'], ['./models/name/']])(
    'serves its model under the name that it was given, %s, where no other is',
    async (model) => {
      const { settings } = resolveConfig('worker', ['--engine=vllm', `--model=${model}`], {});
      expect(vllm.displayName(settings)).toBe(model);
      expect(sglang.displayName(settings)).toBe(model);
    },
  );

  it('leaves no process behind when it stops', async () => {
    const engine = await create();
    await engine.start(never);
    const helper = helperPid();
    expect(isRunning(helper)).toBe(true);
    await engine.stop();
    await waitUntil(() => !isRunning(helper));
  });

  it('kills one that will not stop, with all that belongs to it', async () => {
    const engine = await create({ FAKE_DEAF: '1' });
    await engine.start(never);
    const helper = helperPid();
    await engine.stop();
    await waitUntil(() => !isRunning(helper));
  });

  it('tells at once that the engine has died, and takes its other processes along', async () => {
    const engine = await create({ FAKE_HANGS: '1' });
    await engine.start(never);
    const exit = new Promise<Error>((resolve) => engine.onExit?.(resolve));
    const sink = new RecordingSink();
    engine.generate(tokenRequest([1]), sink, never);
    await waitUntil(() => sink.plainIds > 0);
    const helper = helperPid();
    const port = /--port (\d+)/.exec(starts().at(-1) ?? '')?.[1];
    await fetch(`http://127.0.0.1:${port}/die`).catch(() => undefined); // dies instead of answering
    expect((await exit).message).toMatch(/ended with 3/);
    await sink.closed;
    expect(sink.error).toMatchObject({ worker: 'Disconnected' });
    await waitUntil(() => !isRunning(helper));
  });

  it('says why an engine ended before it was ready', async () => {
    const dying = await create({ FAKE_DIES: 'early' });
    await expect(dying.start(never)).rejects.toThrow(/ended with 1: ValueError: no room on the device$/);
    const missing = await create({}, ['--engine-command=/nowhere/vllm']);
    await expect(missing.start(never)).rejects.toThrow(
      'the engine is not installed here (`/nowhere/vllm` cannot run it): pip install vllm, name another command with ' +
        '--engine-command, or attach a server that runs already with --engine-url',
    );
    expect(starts()).toEqual([]); // it was asked what it understands
  });

  it.each([
    ['0.20.2', false],
    ['0.29.0+cpu', false],
    ['0.30.0', true],
    ['0.33.1', true],
  ])('starts release %s with what it understands, and once', async (version, knows) => {
    const engine = await create({ FAKE_VERSION: version, ...(knows ? {} : { FAKE_UNKNOWN: '--enable-scale-out' }) });
    await engine.start(never);
    expect(starts()).toHaveLength(1);
    expect(starts()[0]?.includes('--enable-scale-out')).toBe(knows);
    expect(starts()[0]).toContain('--shutdown-timeout 4 --enable-prompt-tokens-details --disable-uvicorn-access-log');
    expect(lines).toContainEqual(
      expect.objectContaining({ message: 'the engine is installed', fields: { package: 'vllm', version } }),
    );
  });

  it.each(['0.12.0', '0.34.0', '0.1.dev1+g0abc', '0.31.0rc1'])(
    'asks %s, of which it knows nothing, for its arguments, and starts it once',
    async (version) => {
      const engine = await create({ FAKE_VERSION: version, FAKE_UNKNOWN: '--enable-scale-out,--shutdown-timeout' });
      await engine.start(never);
      expect(starts()).toHaveLength(1);
      expect(starts()[0]).not.toMatch(/--enable-scale-out|--shutdown-timeout/);
      expect(starts()[0]).toContain('--enable-prompt-tokens-details');
    },
  );

  it('starts one that says nothing of itself as the oldest release', async () => {
    const engine = await create({ FAKE_MUTE: '1', FAKE_UNKNOWN: '--enable-scale-out' });
    await engine.start(never);
    expect(starts()).toHaveLength(1);
    expect(starts()[0]).toContain('--shutdown-timeout');
    expect(lines).toContainEqual(
      expect.objectContaining({
        message: 'the engine did not list its arguments: starting it as the oldest release',
      }),
    );
  });

  it('learns the version from the interpreter of the program, which it need not load', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-engine-'));
    const script = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text, { mode: 0o755 });
      return join(folder, name);
    };
    // As pip writes them: a script whose first line names the interpreter of its environment.
    const python = script(
      'python3.11',
      `#!/bin/sh\n[ "$1" = -c ] && { echo "$2" | grep -q 'm.version("vllm")' && echo version 0.20.2; exit; }\n` +
        `shift; exec ${process.execPath} ${FAKE} "$@"\n`,
    );
    const program = script('vllm', `#!${python}\nimport sys\n`);
    const environment = { FAKE_VERSION: '0.33.0', FAKE_UNKNOWN: '--enable-scale-out' };
    const words = Object.entries(environment).map((each) => each.join('='));
    const engine = await create({}, [`--engine-command=env ${words.join(' ')} ${program}`]);
    await engine.start(never);
    rmSync(folder, { recursive: true });
    expect(starts()).toHaveLength(1);
    expect(starts()[0]).not.toContain('--enable-scale-out');
  });

  it('starts one that refuses an argument after all without it, and refuses what the user gave', async () => {
    const engine = await create({ FAKE_UNKNOWN: '--enable-scale-out,--shutdown-timeout' });
    await engine.start(never);
    expect(starts()).toHaveLength(2);
    expect(starts()[0]).toContain('--enable-scale-out --shutdown-timeout 4');
    expect(starts()[1]).not.toMatch(/--enable-scale-out|--shutdown-timeout/);
    expect(starts()[1]).toContain('--enable-prompt-tokens-details');
    const wrong = await create({ FAKE_UNKNOWN: '--typo' }, ['--', '--typo']);
    await expect(wrong.start(never)).rejects.toThrow('unrecognized arguments: --typo');
  });

  it('tells of the death of an engine that was started twice, and not of the first start', async () => {
    const engine = await create({ FAKE_UNKNOWN: '--enable-scale-out' });
    const deaths: string[] = [];
    engine.onExit?.(({ message }) => deaths.push(message));
    await engine.start(never);
    const sink = new RecordingSink();
    engine.generate(tokenRequest([1]), sink, never);
    await sink.closed;
    expect(deaths).toEqual([]);
    const port = /--port (\d+)/.exec(starts().at(-1) ?? '')?.[1];
    await fetch(`http://127.0.0.1:${port}/die`).catch(() => undefined); // dies instead of answering
    await waitUntil(() => deaths.length > 0);
    expect(deaths).toEqual([expect.stringContaining('ended with 3')]);
  });

  it('gives up a start that is aborted', async () => {
    const aborter = new AbortController();
    const engine = await create();
    const starting = engine.start(aborter.signal);
    aborter.abort(new Error('told to stop'));
    await expect(starting).rejects.toThrow('told to stop');
  });

  it('asks again for what an engine that has just loaded does not answer', async () => {
    const engine = await create({ FAKE_DROPS: '/openapi.json:2,/v1/models:1' });
    expect(await engine.start(never)).toMatchObject({ modelName: 'fake' });
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        message: 'the engine did not answer: trying again',
        fields: { path: '/openapi.json', reason: 'socket hang up' },
      }),
    );
  });

  it('names what was not answered when the time of a start is over', async () => {
    const engine = await create({ FAKE_DROPS: '/openapi.json:999,/metrics:999' }, ['--engine-start-timeout=3']);
    await expect(engine.start(never)).rejects.toThrow(
      /^the engine is up but does not describe itself: \/openapi.json, \/metrics: no answer within 3000 ms \(socket hang up, \d+ requests\)$/,
    );
  });

  it('tells at once of an engine that dies while it is asked what it is', async () => {
    const engine = await create({ FAKE_DROPS: '/openapi.json:99999' });
    const starting = engine.start(never);
    starting.catch(() => undefined); // looked at below
    await waitUntil(() => lines.some(({ message }) => message.includes('trying again')));
    const port = /--port (\d+)/.exec(starts().at(-1) ?? '')?.[1];
    await fetch(`http://127.0.0.1:${port}/die`).catch(() => undefined); // dies instead of answering
    await expect(starting).rejects.toThrow('ended with 3');
  });

  it('ends with the process that started it, also when that is killed', async () => {
    const parent = await spawnTypeScript(new URL('start-engine.ts', import.meta.url), [FAKE]);
    const [, engine, helper] = await parent.waitForOutput(/engine (\d+) helper (\d+)/);
    expect(isRunning(Number(engine))).toBe(true);
    await parent.kill();
    await waitUntil(() => !isRunning(Number(engine)) && !isRunning(Number(helper)));
  });
});
