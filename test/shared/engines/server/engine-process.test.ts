import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { vllm } from '../../../../shared/engines/vllm/launch.ts';
import { type CapturedLine, captureLogger } from '../../../../shared/telemetry/index.ts';
import { isRunning, spawnTypeScript, waitUntil } from '../../../support/index.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';

const never = new AbortController().signal;
const FAKE = fileURLToPath(new URL('fake-engine.mjs', import.meta.url));

const SETTINGS = [
  '--engine=vllm',
  '--model=/models/fake',
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
    const { logger, lines: captured } = captureLogger();
    lines = captured;
    const command = ['env', ...Object.entries(env).map((each) => each.join('=')), process.execPath, FAKE];
    const flags = [...SETTINGS, `--engine-command=${command.join(' ')}`, ...args];
    const context = { clock: systemClock, logger, at: 0, onDroppedKvEvents: () => {} };
    const { engine } = await vllm.open(resolveConfig('worker', flags, {}), context);
    engines.push(engine);
    return engine;
  }

  const helperPid = (): number => {
    const words = lines.map(({ message }) => /helper (\d+)/.exec(message)?.[1]).find((pid) => pid !== undefined);
    return Number(words);
  };

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
    const port = /--port (\d+)/.exec(String(lines[0]?.fields?.args))?.[1];
    await fetch(`http://127.0.0.1:${port}/die`).catch(() => undefined); // dies instead of answering
    expect((await exit).message).toMatch(/ended with 3/);
    await sink.closed;
    expect(sink.error).toMatchObject({ worker: 'Disconnected' });
    await waitUntil(() => !isRunning(helper));
  });

  it('says why an engine ended before it was ready', async () => {
    const dying = await create({ FAKE_DIES: 'early' });
    await expect(dying.start(never)).rejects.toThrow(/ended with 1: Traceback .* ValueError: no room on the device/);
    const missing = await create({}, ['--engine-command=/nowhere/vllm']);
    await expect(missing.start(never)).rejects.toThrow(
      'the engine is not installed here (`/nowhere/vllm` cannot run it): pip install vllm, name another command with ' +
        '--engine-command, or attach a server that runs already with --engine-url',
    );
  });

  it('starts an older engine without the arguments that it does not know', async () => {
    const engine = await create({ FAKE_UNKNOWN: '--enable-scale-out,--shutdown-timeout' });
    await engine.start(never);
    const starts = lines
      .filter(({ message }) => message === 'starting the engine')
      .map(({ fields }) => String(fields?.args).split(' serve ')[1]);
    expect(starts).toHaveLength(2);
    expect(starts[0]).toContain('--enable-scale-out --shutdown-timeout 4');
    expect(starts[1]).not.toMatch(/--enable-scale-out|--shutdown-timeout/);
    expect(starts[1]).toContain('--enable-prompt-tokens-details');
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
    const port = /--port (\d+)/.exec(String(lines.findLast(({ fields }) => fields?.args)?.fields?.args))?.[1];
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

  it('ends with the process that started it, also when that is killed', async () => {
    const parent = await spawnTypeScript(new URL('start-engine.ts', import.meta.url), [FAKE]);
    const [, engine, helper] = await parent.waitForOutput(/engine (\d+) helper (\d+)/);
    expect(isRunning(Number(engine))).toBe(true);
    await parent.kill();
    await waitUntil(() => !isRunning(Number(engine)) && !isRunning(Number(helper)));
  });
});
