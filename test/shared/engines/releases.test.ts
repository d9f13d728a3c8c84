import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import type { Engine, EngineInfo, KvEvent } from '../../../shared/engines/index.ts';
import { sglang } from '../../../shared/engines/sglang/launch.ts';
import { vllm } from '../../../shared/engines/vllm/launch.ts';
import { optionalArguments } from '../../../shared/engines/vllm/releases.ts';
import type { EngineRequest } from '../../../shared/protocol/index.ts';
import { type CapturedLine, captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { waitUntil } from '../../support/index.ts';
import { RecordingSink, tokenRequest } from './recording-sink.ts';

/** What is read here of a row of test/fixtures/engines/releases.jsonl. */
interface Release {
  readonly engine: 'vllm' | 'sglang';
  readonly release: string;
  /** Of those that are given, without their dashes. */
  readonly lacksFlags: readonly string[];
  /** Of vLLM's way of tokens in and out. */
  readonly generateTakesRank?: boolean;
}

const RELEASES = readFileSync(new URL('../../fixtures/engines/releases.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Release);
const STAND_IN = fileURLToPath(new URL('server/releases/release-engine.mjs', import.meta.url));
const MODEL = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
const BLOCK = 16;
const never = new AbortController().signal;
const prompt = (blocks: number, first = 1): readonly number[] =>
  Array.from({ length: blocks * BLOCK + 3 }, (_, at) => first + at);
const nameOf = ({ engine, release }: Release): string => `${engine} ${release}`;

describe.each(RELEASES.map((row) => [nameOf(row), row] as const))('%s', (_, row) => {
  let engine: Engine;
  let info: EngineInfo;
  let lines: readonly CapturedLine[];
  const events: KvEvent[] = [];
  const faults: (string | undefined)[] = [];
  const deaths: Error[] = [];
  let asked = 0;

  beforeAll(async () => {
    const { logger, lines: captured } = captureLogger();
    lines = captured;
    const command = `env FAKE_RELEASE=${row.engine}-${row.release} FAKE_EARLY=1 ${process.execPath} ${STAND_IN}`;
    const flags = [`--engine=${row.engine}`, `--engine-command=${command}`, `--model=${MODEL}`, '--enable-lora'];
    flags.push('--served-model-name=m', `--block-size=${BLOCK}`, '--data-parallel-size=2');
    flags.push('--', row.engine === 'vllm' ? '--max_num_seqs=7' : '--max-running-requests=7');
    const context = { clock: systemClock, logger, at: 0, onDroppedKvEvents: () => {} };
    const kind = row.engine === 'vllm' ? vllm : sglang;
    ({ engine } = await kind.open(resolveConfig('worker', flags, {}), context));
    engine.onKvEvents((told) => events.push(...told));
    engine.onKvEventFault?.((fault) => faults.push(fault));
    info = await engine.start(never);
    engine.onExit?.((reason) => deaths.push(reason));
  });

  afterAll(() => engine.stop());

  async function ask(tokens: readonly number[], fields: Partial<EngineRequest> = {}): Promise<RecordingSink> {
    const sink = new RecordingSink();
    const id = `r${++asked}`;
    engine.generate(tokenRequest(tokens, { id, stop: { max_tokens: 4 }, ...fields }), sink, never);
    await sink.closed;
    expect(sink.error).toBeUndefined();
    return sink;
  }

  const stored = () => events.filter((event) => event.kind === 'stored');
  const hashesOf = (tokens: readonly number[], loraName?: string) =>
    hashBlocks(Uint32Array.from(tokens), { blockSizeTokens: BLOCK, loraName }).local;

  it('is started, known, and serves tokens streamed and whole', async () => {
    expect(info).toMatchObject({ modelName: 'm', kvBlockSizeTokens: BLOCK, totalKvBlocks: 64, dataParallelSize: 2 });
    const tokensOfVllm = row.generateTakesRank === false ? '/v1/completions' : '/inference/v1/generate';
    const tokens = row.engine === 'vllm' ? tokensOfVllm : '/generate';
    const said = lines.find(({ message }) => message === 'engine is up')?.fields;
    expect(said).toMatchObject({ version: row.release, tokens });
    const streamed = await ask(prompt(1));
    expect(streamed.ids).toEqual([[100, 101, 102, 103]]);
    const usage = { prompt_tokens: BLOCK + 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } };
    expect(streamed.usage).toMatchObject(usage);
    const whole = await ask(prompt(1), { output: { prompt_logprobs: 0 } });
    expect([whole.ids, whole.finish]).toEqual([streamed.ids, 'length']);
    const likely = await ask(prompt(1), { output: { logprobs: 1 } });
    expect(likely.outputs.flatMap(({ log_probs: each = [] }) => each)).toEqual([-0.5, -0.5, -0.5, -0.5]);
    expect(deaths).toEqual([]);
  });

  it('says how much it runs at once: what was given, behind -- too, and what it chose itself', () => {
    const tokens = row.engine === 'vllm' ? 2048 : 16_384;
    expect(info).toMatchObject({ maxNumSeqs: 7, maxNumBatchedTokens: tokens });
  });

  it('tells of its caches: what they held before, what each stores and reuses, and that they are empty', async () => {
    expect(info.publishesKvEvents).toBe(true);
    await waitUntil(() => stored().length >= 2); // of the early blocks, and of the first test
    events.length = 0;
    await ask(prompt(4, 50), { routing: { dp_rank: 1 } });
    await waitUntil(() => stored().length === 1);
    expect(stored()[0]).toMatchObject({ dpRank: 1, tokensHashes: hashesOf(prompt(4, 50)) });
    const again = await ask(prompt(4, 50), { routing: { dp_rank: 1 } });
    expect(again.usage?.prompt_tokens_details).toEqual({ cached_tokens: 4 * BLOCK });
    await engine.clearKvBlocks?.(never);
    await waitUntil(() => events.at(-1)?.kind === 'cleared');
    expect(faults).toEqual([]);
  });

  it('aborts a request that no client waits for, and shows its load until then', async () => {
    const leaving = new AbortController();
    engine.generate(tokenRequest(prompt(1), { stop: { max_tokens: 100_000 } }), new RecordingSink(), leaving.signal);
    await waitUntil(() => engine.load()[0]?.runningRequests === 1);
    expect(engine.load()[0]).toMatchObject({ usedKvBlocks: 32, waitingRequests: 0 });
    const told = events.length;
    await expect(engine.clearKvBlocks?.(never)).rejects.toThrow(); // blocks that are in use stay, and routers know them
    expect(events.slice(told).filter(({ kind }) => kind === 'cleared')).toEqual([]);
    leaving.abort();
    await waitUntil(() => engine.load()[0]?.runningRequests === 0);
    await engine.clearKvBlocks?.(never);
    expect(engine.tokenLatency?.()).toEqual({ sumSeconds: 1, count: 1 });
  });

  it('serves an adapter, whose blocks are its own', async () => {
    await engine.loadLora?.('tuned', '/adapters/tuned', never);
    await engine.loadLora?.('tuned', '/adapters/tuned', never); // twice is once
    events.length = 0;
    await ask(prompt(3), { routing: { lora_name: 'tuned' } });
    await waitUntil(() => stored().length === 1);
    expect(stored()[0]?.tokensHashes).toEqual(hashesOf(prompt(3), 'tuned'));
    await engine.unloadLora?.('tuned', never);
  });

  it('sleeps and wakes', async () => {
    await engine.sleep?.(1, never);
    await waitUntil(() => events.at(-1)?.kind === 'cleared');
    const refused = new RecordingSink();
    engine.generate(tokenRequest(prompt(1)), refused, never);
    expect(refused.error).toMatchObject({ worker: 'WorkerUnavailable' });
    await engine.wake?.([], never);
    await ask(prompt(1));
  });
});

describe('the table of releases', () => {
  it.each(RELEASES.filter(({ engine }) => engine === 'vllm'))(
    'gives $release what it knows',
    ({ release, lacksFlags }) => {
      const given = optionalArguments(4).filter(({ since }) => numberOf(release) >= numberOf(since));
      const known = optionalArguments(4).filter(({ words: [flag] }) => !lacksFlags.includes(flag.slice(2)));
      expect(given).toEqual(known);
    },
  );
});

describe('the page of releases', () => {
  it('has a line for each', () => {
    const page = readFileSync(new URL('../../../docs/engines.md', import.meta.url), 'utf8');
    const listed = [...page.matchAll(/^\| (0\.[\d., ]+) \|/gm)].flatMap(([, names = '']) => names.split(', '));
    const minor = ({ engine, release }: Release): string =>
      engine === 'vllm' ? release.replace(/\.\d+$/, '') : release;
    expect(listed).toEqual(RELEASES.map(minor));
  });
});

/** 0.20.2 as 20. */
function numberOf(release: string): number {
  return Number(release.split('.')[1]);
}
