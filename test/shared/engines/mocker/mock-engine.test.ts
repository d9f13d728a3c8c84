import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EnginePass, KvEvent } from '../../../../shared/engines/index.ts';
import { createMockEngine } from '../../../../shared/engines/mocker/mock-engine.ts';
import type { MockEngineOptions } from '../../../../shared/engines/mocker/options.ts';
import { isMigratable } from '../../../../shared/errors/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { engineRequest, RecordingSink, range, startMockBed } from './support.ts';

const TEXT = { passages: [range(20, 1000), range(30, 2000), range(25, 3000)], separator: [7, 7] };

function usedBlocks(engine: { load(): readonly { usedKvBlocks: number }[] }): number {
  return engine.load().reduce((sum, rank) => sum + rank.usedKvBlocks, 0);
}

describe('mock engine', () => {
  it('tells what it can do once it is loaded', async () => {
    const clock = new VirtualClock();
    const engine = createMockEngine(
      { startupTimeMs: 5000, numGpuBlocks: 100, dataParallelSize: 2, maxModelLen: 4096 },
      { clock },
    );
    let info: unknown;
    const starting = engine.start(new AbortController().signal).then((value) => {
      info = value;
    });
    await clock.advance(4999);
    expect(info).toBeUndefined();
    await expect(engine.health(new AbortController().signal)).rejects.toThrow();
    await clock.advance(1);
    await starting;
    expect(info).toEqual({
      contextLength: 4096,
      kvBlockSizeTokens: 64,
      totalKvBlocks: 100,
      maxNumSeqs: 256,
      maxNumBatchedTokens: 8192,
      dataParallelSize: 2,
      modelInput: 'Tokens',
      modelType: ['Chat', 'Completions'],
      publishesKvEvents: true,
      takesPromptEmbeds: false,
    });
    await engine.health(new AbortController().signal);
  });

  it('stops loading when it is stopped', async () => {
    const engine = createMockEngine({ startupTimeMs: 5000 }, { clock: new VirtualClock() });
    await expect(engine.start(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });

  it.each([
    [{ numGpuBlocks: 0 }, 'numGpuBlocks must be a positive whole number, got 0'],
    [{ blockSizeTokens: 1.5 }, 'blockSizeTokens'],
    [{ speedupRatio: -1 }, 'speedupRatio must be a number of at least 0, got -1'],
    [{ randomIds: { first: 0, count: 0 } }, 'randomIds.count'],
  ] as [MockEngineOptions, string][])('refuses %o', (options, message) => {
    expect(() => createMockEngine(options, { clock: new VirtualClock() })).toThrow(message);
  });

  it('serves no longer context than its cache or an uncut prompt can be', async () => {
    const contextOf = async (options: MockEngineOptions): Promise<number | undefined> => {
      const engine = createMockEngine(options, { clock: new VirtualClock() });
      return (await engine.start(new AbortController().signal)).contextLength;
    };
    expect(await contextOf({ numGpuBlocks: 10, maxModelLen: 100_000 })).toBe(640);
    expect(await contextOf({ enableChunkedPrefill: false })).toBe(8192);
    expect(await contextOf({})).toBe(16_384 * 64);
  });

  it('paces tokens as a GPU would, without drift', async () => {
    const { clock, ask } = await startMockBed();
    const { sink } = ask({ prompt: range(1000), stop: { max_tokens: 4 } });
    await clock.advance(1000);
    const step = 5.74 + (54.01 * 1001) / (16_384 * 64) - 25.74 * (1001 / (16_384 * 64)) ** 2;
    expect(sink.turns[0]).toBeCloseTo(32.1059, 4);
    expect((sink.turns[1] ?? 0) - (sink.turns[0] ?? 0)).toBeCloseTo(step, 6);
    expect(sink.turns).toHaveLength(4);
    expect(clock.pendingTimers).toBe(0);
  });

  it('tells of each pass what it ran and left waiting, and not what came meanwhile', async () => {
    const { clock, engine, ask } = await startMockBed({ maxNumSeqs: 2 });
    const passes: EnginePass[] = [];
    engine.onPasses?.((pass) => passes.push(pass));
    ask({ prompt: range(1000), stop: { max_tokens: 3 } });
    await clock.advance(1); // within the first pass
    for (const length of [300, 200, 500]) ask({ prompt: range(length, 10 * length), stop: { max_tokens: 1 } });
    await clock.advance(1000);
    expect(passes).toMatchObject([
      { prefillRequests: 1, prefillTokens: 1000, decodeRequests: 0, queuedPrefillRequests: 0, queuedPrefillTokens: 0 },
      {
        prefillRequests: 1,
        prefillTokens: 300,
        decodeKvTokens: 1001,
        queuedPrefillRequests: 2,
        queuedPrefillTokens: 700,
      },
      {
        prefillRequests: 1,
        prefillTokens: 200,
        decodeKvTokens: 1002,
        queuedPrefillRequests: 1,
        queuedPrefillTokens: 500,
      },
      { prefillRequests: 1, prefillTokens: 500, decodeRequests: 0, queuedPrefillRequests: 0, queuedDecodeRequests: 0 },
    ]);
    expect(passes[0]?.wallTimeS).toBeCloseTo(0.0321, 4);
  });

  it('keeps to the schedule when timers are late', async () => {
    const clock = new VirtualClock();
    const late = {
      ...delegate(clock),
      after: (ms: number, run: () => void) => clock.after(Math.ceil(ms / 10) * 10, run),
    };
    const engine = createMockEngine({}, { clock: late, defer: (run) => void clock.after(0, run) });
    await engine.start(new AbortController().signal);
    const sink = new RecordingSink(clock);
    engine.generate(engineRequest('r', range(128), { stop: { max_tokens: 400 } }), sink, new AbortController().signal);
    await clock.advance(5000);
    const lastMs = sink.turns.at(-1) ?? 0;
    const dueMs = 18.4518 + 399 * 5.75; // a step takes 5.747 to 5.766 ms at this length
    expect(Math.abs(lastMs - dueMs)).toBeLessThan(16);
  });

  it('gives way to other work after every pass, however fast, and sets no timer for it', async () => {
    const clock = new VirtualClock();
    const turns: (() => void)[] = [];
    const engine = createMockEngine({ speedupRatio: 1e9 }, { clock, defer: (run) => void turns.push(run) });
    await engine.start(new AbortController().signal);
    const sink = new RecordingSink(clock);
    engine.generate(engineRequest('r', range(64), { stop: { max_tokens: 50 } }), sink, new AbortController().signal);
    const perTurn: number[] = [];
    while (!sink.isEnded) {
      const before = sink.tokenIds.length;
      turns.shift()?.();
      perTurn.push(sink.tokenIds.length - before);
      expect(clock.pendingTimers).toBe(0);
      await clock.advance(0.001); // a pass takes nanoseconds, yet not nothing
    }
    expect(Math.max(...perTurn)).toBe(1);
  });

  it('lets requests of one turn share the first pass and gives each a token a pass', async () => {
    const { clock, ask } = await startMockBed();
    const first = ask({ prompt: range(64) });
    const second = ask({ prompt: range(64, 500) });
    await clock.advance(1000);
    expect(first.sink.turns).toEqual(second.sink.turns);
  });

  it('ends at max_tokens with usage, and tells what was cached', async () => {
    const { clock, ask } = await startMockBed();
    ask({ prompt: range(200) });
    await clock.advance(1000);
    const { sink } = ask({ prompt: range(200) });
    await clock.advance(1000);
    expect(sink.tokenIds).toHaveLength(8);
    expect(sink.outputs).toEqual([
      {
        index: 0,
        finish_reason: 'length',
        completion_usage: {
          prompt_tokens: 200,
          completion_tokens: 8,
          total_tokens: 208,
          prompt_tokens_details: { cached_tokens: 192 },
        },
      },
    ]);
    expect(sink.isEnded).toBe(true);
  });

  it('runs to the end of the context when max_tokens is absent or larger', async () => {
    const { clock, ask } = await startMockBed({ maxModelLen: 100 });
    const sinks = [ask({ prompt: range(90), stop: {} }), ask({ prompt: range(90), stop: { max_tokens: 500 } })];
    await clock.advance(1000);
    for (const { sink } of sinks) {
      expect(sink.tokenIds).toHaveLength(10);
      expect(sink.finish?.finish_reason).toBe('length');
    }
  });

  it('answers with one passage and then the end of sequence', async () => {
    const { clock, ask } = await startMockBed({ readableTokenIds: TEXT });
    const { sink } = ask({ prompt: range(5, 10), stop: { max_tokens: 500 } });
    await clock.advance(1000);
    expect(TEXT.passages).toContainEqual(sink.tokenIds.slice(0, -1));
    expect(sink.finish).toMatchObject({ finish_reason: 'eos', token_ids: [2], index: 0 });
    expect(sink.finish?.completion_usage?.completion_tokens).toBe(sink.tokenIds.length);
  });

  it('ends without a token when the model has no end of sequence', async () => {
    const { clock, ask } = await startMockBed({ readableTokenIds: TEXT });
    const { sink } = ask({ prompt: range(5, 10), stop: { max_tokens: 500 }, eosTokenIds: [] });
    await clock.advance(1000);
    expect(TEXT.passages).toContainEqual(sink.tokenIds);
    expect(sink.finish?.finish_reason).toBe('eos');
  });

  it.each([
    ['ignore_eos', { ignore_eos: true, max_tokens: 100 }, 100],
    ['min_tokens', { min_tokens: 60, max_tokens: 100 }, undefined],
  ])('goes on with another passage under %s', async (_, stop, expected) => {
    const { clock, ask } = await startMockBed({ readableTokenIds: TEXT });
    const { sink } = ask({ prompt: range(5, 10), stop });
    await clock.advance(1000);
    expect(sink.tokenIds.length).toBeGreaterThanOrEqual(60);
    if (expected !== undefined) expect(sink.tokenIds).toHaveLength(expected);
    expect(sink.tokenIds).toContain(7);
  });

  it('ends at a stop token of the request and names it, but not before min_tokens', async () => {
    const { clock, ask } = await startMockBed({ readableTokenIds: { passages: [range(20, 1000)], separator: [7] } });
    const { sink } = ask({ prompt: [1], stop: { stop_token_ids: [1005], max_tokens: 50 } });
    const late = ask({ prompt: [1], stop: { stop_token_ids: [1005, 1010], min_tokens: 8, max_tokens: 50 } });
    await clock.advance(1000);
    expect(sink.tokenIds).toEqual(range(6, 1000));
    expect(sink.finish).toMatchObject({ finish_reason: 'stop', stop_reason: 1005, token_ids: [1005] });
    expect(late.sink.finish).toMatchObject({ finish_reason: 'stop', stop_reason: 1010 });
  });

  it('continues exactly on another worker, with any request id', async () => {
    for (const options of [{ readableTokenIds: TEXT }, {}]) {
      const whole = await answer(options, range(10), 30);
      for (const cut of [1, 7, 19, 29]) {
        const rest = await answer(options, [...range(10), ...whole.slice(0, cut)], 30 - cut);
        expect([...whole.slice(0, cut), ...rest]).toEqual(whole);
      }
    }
  });

  it('answers n choices that differ, with one usage at the last finish', async () => {
    const { clock, ask } = await startMockBed();
    const { sink } = ask({ prompt: range(10), sampling: { n: 3 }, stop: { max_tokens: 5 } });
    await clock.advance(1000);
    expect(sink.ids.map((ids) => ids.length)).toEqual([5, 5, 5]);
    expect(new Set(sink.ids.map(String)).size).toBe(3);
    expect(sink.outputs.map((output) => output.completion_usage?.completion_tokens)).toEqual([
      undefined,
      undefined,
      15,
    ]);
    expect(sink.isEnded).toBe(true);
  });

  it('makes up log probabilities from the id alone', async () => {
    const { clock, ask } = await startMockBed();
    const { sink } = ask({ prompt: range(10), output: { logprobs: 2 }, stop: { max_tokens: 2 } });
    await clock.advance(1000);
    expect(sink.outputs).toHaveLength(2);
    const [first] = sink.outputs;
    const id = first?.token_ids?.[0] ?? -1;
    const logprob = -0.01 * ((id % 50) + 1);
    expect(first?.log_probs).toEqual([logprob]);
    expect(first?.top_logprobs).toEqual([
      [
        { rank: 0, token_id: id, logprob },
        { rank: 1, token_id: (id + 1) % 32_000, logprob: logprob - 0.5 },
      ],
    ]);
    expect(sink.finish?.token_ids).toHaveLength(1);
  });

  it('frees the blocks of an aborted request within one pass and leaves its sink alone', async () => {
    const { clock, engine, ask } = await startMockBed();
    const { sink, abort } = ask({ prompt: range(500), stop: { max_tokens: 1000 } });
    await clock.advance(100);
    const before = sink.tokenIds.length;
    expect(usedBlocks(engine)).toBeGreaterThan(0);
    abort.abort();
    await clock.advance(6);
    expect(usedBlocks(engine)).toBe(0);
    expect(sink.tokenIds.length).toBe(before);
    expect(sink.isEnded).toBe(false);
    expect(sink.error).toBeUndefined();
    await clock.advance(100);
    expect(clock.pendingTimers).toBe(0);
  });

  it('does nothing for a request that was aborted before', async () => {
    const { engine, clock } = await startMockBed();
    const sink = new RecordingSink();
    engine.generate(engineRequest('r', [1]), sink, AbortSignal.abort());
    await clock.advance(100);
    expect(sink).toMatchObject({ isEnded: false, error: undefined, outputs: [] });
    expect(clock.pendingTimers).toBe(0);
  });

  it('fails what runs when it stops, in a way that lets it move on', async () => {
    const { engine, clock, ask } = await startMockBed();
    const { sink } = ask({ prompt: range(10), stop: { max_tokens: 1000 } });
    await clock.advance(50);
    await engine.stop();
    expect(sink.error !== undefined && isMigratable(sink.error)).toBe(true);
    expect(clock.pendingTimers).toBe(0);
    const { sink: refused } = ask({ prompt: [1] });
    expect(refused.error?.worker).toBe('EngineShutdown');
  });

  it.each([
    ['an empty prompt', { prompt: [] }, 'the prompt is empty'],
    ['a prompt over the context', { prompt: range(64) }, 'context of 64 tokens'],
    ['max_tokens 0', { prompt: [1], stop: { max_tokens: 0 } }, 'max_tokens must be at least 1'],
    ['an unknown rank', { prompt: [1], routing: { dp_rank: 1 } }, 'data_parallel_rank 1 is out of range [0, 1).'],
    ['text', { prompt: [1], input: { kind: 'text', endpoint: 'x', body: {} } as const }, 'takes token ids'],
  ])('refuses %s as the client’s mistake', async (_, request, message) => {
    const { ask } = await startMockBed({ maxModelLen: 64 });
    const { sink } = ask(request);
    expect(sink.error?.worker).toBe('InvalidArgument');
    expect(sink.error?.message).toContain(message);
  });

  it('refuses more waiting requests than it may hold', async () => {
    const { clock, ask } = await startMockBed({ waitingRequestsMax: 1 });
    const accepted = ask({ prompt: [1] });
    const { sink } = ask({ prompt: [2] });
    expect(sink.error?.worker).toBe('WorkerOverloaded');
    await clock.advance(1000);
    expect(accepted.sink.isEnded).toBe(true);
  });

  it('sends requests to the rank they ask for, others to the least loaded', async () => {
    const { engine, ask } = await startMockBed({ dataParallelSize: 3 });
    ask({ prompt: [1], routing: { dp_rank: 2 } });
    ask({ prompt: [2] });
    ask({ prompt: [3] });
    ask({ prompt: [4], routing: { dp_rank: 2 } });
    expect(engine.load().map((rank) => rank.waitingRequests)).toEqual([1, 1, 2]);
    expect(engine.load().map((rank) => rank.activePrefillTokens)).toEqual([1, 1, 2]);
  });
});

describe('KV events of the mock engine', () => {
  it('come once a pass, chained by parent, with equal names on every rank and worker', async () => {
    const { clock, engine, ask } = await startMockBed({ blockSizeTokens: 4, dataParallelSize: 2 });
    const calls: (readonly KvEvent[])[] = [];
    engine.onKvEvents((events) => calls.push(events));
    ask({ prompt: range(10), stop: { max_tokens: 7 }, routing: { dp_rank: 1 } });
    ask({ prompt: range(10), stop: { max_tokens: 1 }, routing: { dp_rank: 0 } });
    await clock.advance(1000);
    const stored = calls.flat().filter((event) => event.kind === 'stored');
    expect(calls.flat().every((event) => event.kind === 'stored')).toBe(true);
    const onRank1 = stored.filter((event) => event.dpRank === 1);
    expect(onRank1.map((event) => event.blockHashes.length / 2)).toEqual([2, 1, 1]);
    expect(onRank1[0]?.parentHash).toBeUndefined();
    expect(onRank1[1]?.parentHash).toEqual(Array.from(onRank1[0]?.blockHashes.slice(2, 4) ?? []));
    expect(stored.find((event) => event.dpRank === 0)?.blockHashes).toEqual(onRank1[0]?.blockHashes);
    expect(stored.find((event) => event.dpRank === 0)?.tokensHashes).toEqual(onRank1[0]?.tokensHashes);
  });

  it('say when the cache was cleared, after which nothing of it is found again', async () => {
    const { clock, engine, ask } = await startMockBed({ blockSizeTokens: 4, dataParallelSize: 2 });
    const events: KvEvent[] = [];
    engine.onKvEvents((batch) => events.push(...batch));
    const question = { prompt: range(10), stop: { max_tokens: 1 }, routing: { dp_rank: 1 } };
    ask(question);
    const running = ask({ prompt: range(9, 500), stop: { max_tokens: 50 } }).sink;
    await clock.advance(30);
    await engine.clearKvBlocks?.(new AbortController().signal);
    const cleared = events.filter(({ kind }) => kind === 'cleared').map(({ dpRank }) => dpRank);
    expect(cleared).toEqual([0, 1]);
    await clock.advance(5000);
    expect(running.isEnded).toBe(true);
    const before = events.length;
    ask(question);
    await clock.advance(1000);
    expect(events.slice(before)).toMatchObject([{ kind: 'stored', dpRank: 1, parentHash: undefined }]);
    expect(usedBlocks(engine)).toBe(0);
  });

  it('tell apart adapters and cache salts', async () => {
    const { clock, engine, ask } = await startMockBed({ blockSizeTokens: 4 });
    const events: KvEvent[] = [];
    engine.onKvEvents((batch) => events.push(...batch));
    ask({ prompt: range(5), stop: { max_tokens: 1 } });
    ask({ prompt: range(5), stop: { max_tokens: 1 }, routing: { lora_name: 'a' } });
    ask({ prompt: range(5), stop: { max_tokens: 1 }, routing: { cache_salt: 's' } });
    await clock.advance(1000);
    expect(events).toHaveLength(3);
  });

  it('fold to the blocks that the cache holds, and nothing leaks in 10,000 random requests', async () => {
    const random = seededRandom(7);
    const { clock, engine, ask } = await startMockBed({
      numGpuBlocks: 200,
      blockSizeTokens: 4,
      maxNumSeqs: 32,
      maxNumBatchedTokens: 256,
      speedupRatio: 100,
    });
    const held = new Set<string>();
    engine.onKvEvents((events) => {
      for (const event of events) if (event.kind !== 'cleared') fold(held, event);
    });
    const sinks: RecordingSink[] = [];
    const aborted = new Set<RecordingSink>();
    for (let burst = 0; burst < 200; burst++) {
      for (let at = 0; at < 50; at++) {
        const prompt = range(1 + random.below(60), 1000 * random.below(20));
        const { sink, abort } = ask({ prompt, stop: { max_tokens: 1 + random.below(20) } });
        sinks.push(sink);
        if (random.below(5) > 0) continue;
        clock.after(random.next() * 20, () => {
          if (!sink.isEnded) aborted.add(sink);
          abort.abort();
        });
      }
      await clock.advance(random.next() * 10);
    }
    await clock.advance(60_000);
    expect(engine.load()[0]).toMatchObject({ runningRequests: 0, waitingRequests: 0, usedKvBlocks: 0 });
    expect(clock.pendingTimers).toBe(0);
    expect(sinks.every((sink) => sink.isEnded !== aborted.has(sink))).toBe(true);
    expect(aborted.size).toBeGreaterThan(0);
    expect(held.size).toBeLessThanOrEqual(200);
    expect(held.size).toBeGreaterThan(100);
  });
});

/** Applies an event to a set of block names; every store must be new and every removal known. */
function fold(held: Set<string>, event: Exclude<KvEvent, { kind: 'cleared' }>): void {
  for (let at = 0; at < event.blockHashes.length; at += 2) {
    const name = `${event.blockHashes[at]}:${event.blockHashes[at + 1]}`;
    if (event.kind === 'stored' ? held.has(name) : !held.has(name)) throw new Error(`${event.kind} twice: ${name}`);
    if (event.kind === 'stored') held.add(name);
    else held.delete(name);
  }
}

async function answer(options: MockEngineOptions, prompt: readonly number[], maxTokens: number): Promise<number[]> {
  const { clock, ask } = await startMockBed(options);
  const { sink } = ask({ prompt, stop: { max_tokens: maxTokens, ignore_eos: true } });
  await clock.advance(10_000);
  expect(sink.isEnded).toBe(true);
  return [...sink.tokenIds];
}

function delegate(clock: VirtualClock) {
  return {
    nowMs: () => clock.nowMs(),
    wallMs: () => clock.wallMs(),
    every: clock.every.bind(clock),
    sleep: clock.sleep.bind(clock),
  };
}

describe('output of the mock engine', () => {
  it('is continued exactly by another worker at any cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(50), { minLength: 1, maxLength: 30 }),
        fc.nat(39),
        fc.boolean(),
        async (prompt, cut, isReadable) => {
          const options = isReadable ? { readableTokenIds: TEXT } : {};
          const whole = await answer(options, prompt, 40);
          const rest = cut === 0 ? whole : await answer(options, [...prompt, ...whole.slice(0, cut)], 40 - cut);
          expect([...whole.slice(0, cut), ...rest]).toEqual(whole);
        },
      ),
      { numRuns: 40 },
    );
  });
});
