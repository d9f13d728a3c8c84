import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Engine } from '../../../../shared/engines/index.ts';
import { tcpHandoffs } from '../../../../shared/engines/mocker/handoffs.ts';
import { createMockEngine } from '../../../../shared/engines/mocker/mock-engine.ts';
import type { MockEngineOptions } from '../../../../shared/engines/mocker/options.ts';
import type { EngineRequest } from '../../../../shared/protocol/index.ts';
import { memoryHandoffs } from '../../../support/memory-handoffs.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { engineRequest, RecordingSink, range } from './support.ts';

const PROMPT = range(100);
const SMALL: MockEngineOptions = { blockSizeTokens: 16, numGpuBlocks: 64, seed: 7 };

async function startPair(more: MockEngineOptions = {}, prefillMore: MockEngineOptions = {}) {
  const clock = new VirtualClock();
  const handoffs = memoryHandoffs();
  const deps = { clock, handoffs, defer: (run: () => void) => void clock.after(0, run) };
  const make = async (options: MockEngineOptions): Promise<Engine> => {
    const engine = createMockEngine({ ...SMALL, ...more, ...options }, deps);
    await engine.start(new AbortController().signal);
    return engine;
  };
  const prefill = await make({ isPrefill: true, ...prefillMore });
  const decode = await make({});
  const ask = (engine: Engine, rest: Partial<EngineRequest> = {}) => {
    const sink = new RecordingSink(clock);
    const abort = new AbortController();
    engine.generate(engineRequest('r1', PROMPT, rest), sink, abort.signal);
    return { sink, abort };
  };
  /** The prefill stage: one token, and where the blocks are. */
  const prefilled = async (): Promise<Partial<EngineRequest>> => {
    const { sink } = ask(prefill, { stop: { max_tokens: 1 } });
    await clock.advance(1000);
    return { prefillResult: { disaggregated_params: sink.finish?.disaggregated_params } };
  };
  return { clock, prefill, decode, ask, prefilled };
}

/** Lets the other side accept a connection and read. */
async function turns(): Promise<void> {
  for (let at = 0; at < 20; at++) await turn();
}

function held(engine: Engine): number {
  return engine.load()[0]?.usedKvBlocks ?? 0;
}

describe('a mock prefill engine and a mock decode engine', () => {
  it('answer together what one engine answers alone', async () => {
    const { clock, decode, ask, prefilled } = await startPair();
    const alone = ask(decode).sink;
    await clock.advance(1000);
    const handed = await prefilled();
    const together = ask(decode, handed).sink;
    await clock.advance(1000);
    expect(together.tokenIds).toEqual(alone.tokenIds);
    expect(together.tokenIds).toHaveLength(8);
  });

  it('keep the blocks of a prompt until they are fetched, and no longer', async () => {
    const { clock, prefill, decode, ask, prefilled } = await startPair();
    const handed = await prefilled();
    expect(held(prefill)).toBe(7);
    ask(decode, handed);
    await clock.advance(1000);
    expect(held(prefill)).toBe(0);
    expect(held(decode)).toBe(0);
  });

  it('spend no time on a prompt that was computed elsewhere, but on moving it', async () => {
    const slow = { kvBytesPerToken: 1e6, kvTransferBandwidthGbps: 1 }; // 1 ms a token
    const { clock, decode, ask, prefilled } = await startPair(slow);
    const handed = await prefilled();
    const startMs = clock.nowMs();
    const { sink } = ask(decode, handed);
    await clock.advance(1000);
    const firstMs = (sink.turns[0] ?? 0) - startMs;
    expect(firstMs).toBeGreaterThanOrEqual(100);
    expect(firstMs).toBeLessThan(112); // moving, and one decode step
  });

  it('move only missing blocks if the option is set', async () => {
    const slow = { kvBytesPerToken: 1e6, kvTransferBandwidthGbps: 1, kvTransferTiming: 'destination_missing' } as const;
    const { clock, decode, ask, prefilled } = await startPair(slow);
    ask(decode); // leaves the prompt in the cache of the decode engine
    await clock.advance(1000);
    const handed = await prefilled();
    const startMs = clock.nowMs();
    const { sink } = ask(decode, handed);
    await clock.advance(1000);
    expect((sink.turns[0] ?? 0) - startMs).toBeLessThan(20); // 4 of 100 tokens
  });

  it('free blocks that are not fetched, when released or after the time limit', async () => {
    const { clock, prefill, prefilled } = await startPair({ handoffTimeoutMs: 5000 });
    const handed = await prefilled();
    prefill.releasePrefill?.(engineRequest('r1', PROMPT, handed));
    expect(held(prefill)).toBe(0);
    await prefilled();
    expect(held(prefill)).toBe(7);
    await clock.advance(5000);
    expect(held(prefill)).toBe(0);
  });

  it('let a request go on elsewhere when the blocks are gone', async () => {
    const { clock, prefill, decode, ask, prefilled } = await startPair();
    const handed = await prefilled();
    prefill.releasePrefill?.(engineRequest('r1', PROMPT, handed));
    const { sink } = ask(decode, handed);
    await clock.advance(1000);
    expect(sink.error?.worker).toBe('BackendProtocol');
    expect(held(decode)).toBe(0);
  });

  it('compute a prompt again that was moved and then lost to preemption', async () => {
    const tight = { numGpuBlocks: 12 };
    const { clock, decode, ask, prefilled } = await startPair(tight);
    const alone = ask(decode, { stop: { max_tokens: 60 } }).sink;
    await clock.advance(5000);
    const handed = await prefilled();
    const together = ask(decode, { ...handed, stop: { max_tokens: 60 } }).sink;
    const other = new RecordingSink();
    decode.generate(
      engineRequest('r2', range(60, 500), { stop: { max_tokens: 60 } }),
      other,
      new AbortController().signal,
    );
    await clock.advance(20_000);
    expect(together.tokenIds).toEqual(alone.tokenIds);
    expect(other.tokenIds).toHaveLength(60);
  });

  it('keep nothing when the model ends with the first token', async () => {
    const { clock, prefill, ask } = await startPair();
    const seen = ask(prefill, { stop: { max_tokens: 1 } }).sink;
    await clock.advance(1000);
    prefill.releasePrefill?.(
      engineRequest('r1', PROMPT, { prefillResult: { disaggregated_params: seen.finish?.disaggregated_params } }),
    );
    const [first = 0] = seen.tokenIds;
    const { sink } = ask(prefill, { stop: { max_tokens: 1, stop_token_ids: [first] } });
    await clock.advance(1000);
    expect(sink.finish).toMatchObject({ finish_reason: 'stop' });
    expect(sink.finish?.disaggregated_params).toBeUndefined();
    expect(held(prefill)).toBe(0);
  });

  it('serve a probe without any peer', async () => {
    const { clock, prefill, ask } = await startPair();
    const { sink } = ask(prefill, { stop: { max_tokens: 1 }, isHealthCheck: true });
    await clock.advance(1000);
    expect(sink.isEnded).toBe(true);
    expect(held(prefill)).toBe(0);
  });

  it('finish what is fetched from a prefill engine that stops', async () => {
    const slow = { kvBytesPerToken: 1e6, kvTransferBandwidthGbps: 1 };
    const { clock, prefill, decode, ask, prefilled } = await startPair(slow);
    const handed = await prefilled();
    const { sink } = ask(decode, handed);
    await clock.advance(50);
    const stopping = prefill.stop();
    await clock.advance(1000);
    await stopping;
    expect(sink.isEnded).toBe(true);
  });
});

describe('a meeting place of mock engines', () => {
  const bootstrapInfo = { bootstrap_host: 'memory', bootstrap_port: 9000, bootstrap_room: '9223372036854775807' };
  const META = { bootstrapPort: 9000 };

  it.each(['prefill', 'decode'] as const)('brings both stages together when %s comes first', async (early) => {
    const { clock, prefill, decode, ask } = await startPair({}, META);
    const alone = ask(decode).sink;
    await clock.advance(1000);
    const stages = {
      prefill: () => ask(prefill, { bootstrapInfo, stop: { max_tokens: 1 } }).sink,
      decode: () => ask(decode, { bootstrapInfo }).sink,
    };
    const late = early === 'prefill' ? 'decode' : 'prefill';
    const sinks = { [early]: stages[early]() };
    await clock.advance(500);
    sinks[late] = stages[late]();
    await clock.advance(1000);
    expect(sinks.decode?.tokenIds).toEqual(alone.tokenIds);
    expect(held(prefill)).toBe(0);
  });

  it('fails the decode stage when the prefill stage is cancelled', async () => {
    const { clock, prefill, decode, ask } = await startPair({}, META);
    const { abort } = ask(prefill, { bootstrapInfo, stop: { max_tokens: 1 } });
    const { sink } = ask(decode, { bootstrapInfo });
    await clock.advance(1);
    abort.abort();
    await clock.advance(1000);
    expect(sink.error?.worker).toBe('BackendProtocol');
    expect(held(prefill)).toBe(0);
  });

  it('frees what was computed for a decode stage that has gone', async () => {
    const slow = { kvBytesPerToken: 1e6, kvTransferBandwidthGbps: 1 };
    const { clock, prefill, decode, ask } = await startPair(slow, META);
    ask(prefill, { bootstrapInfo, stop: { max_tokens: 1 } });
    const { abort } = ask(decode, { bootstrapInfo });
    await clock.advance(60);
    expect(held(prefill)).toBe(7);
    abort.abort();
    await clock.advance(1);
    expect(held(prefill)).toBe(0);
  });
});

describe('a door for handoffs', () => {
  const DESK = { asked: () => () => {} };

  async function openDoor(callersMax?: number) {
    const clock = new VirtualClock();
    const network = tcpHandoffs({
      bind: '127.0.0.1',
      advertise: '127.0.0.1',
      clock,
      ...(callersMax && { callersMax }),
    });
    const listener = await network.listen(0, DESK);
    onTestFinished(() => listener.close());
    const call = async (first: string): Promise<{ readonly closed: Promise<unknown>; isClosed: boolean }> => {
      const socket = connect(listener.port, '127.0.0.1');
      onTestFinished(() => void socket.destroy());
      socket.on('error', () => {}); // `close` follows
      const caller = { closed: once(socket, 'close'), isClosed: false };
      socket.once('close', () => {
        caller.isClosed = true;
      });
      await once(socket, 'connect');
      socket.resume();
      socket.write(first);
      return caller;
    };
    return { clock, call };
  }

  it.each(['', 'w', 'wait key without an end'])('is not kept open by a caller that says %j', async (first) => {
    const { clock, call } = await openDoor();
    const asking = await call('wait key\n');
    const silent = await call(first);
    await turns();
    await clock.advance(10_000);
    await silent.closed;
    expect(asking.isClosed).toBe(false);
  });

  it('lets in no more callers than it has room for', async () => {
    const { call } = await openDoor(2);
    const first = await call('wait key\n');
    await call('wait other\n');
    await (await call('wait third\n')).closed;
    expect(first.isClosed).toBe(false);
  });
});

describe('handoffs over TCP', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  /** What a caller is told, and what its holder sees. */
  async function open() {
    const network = tcpHandoffs({ bind: '127.0.0.1', advertise: '127.0.0.1' });
    const asked: string[] = [];
    let left = (): void => {};
    const gone = new Promise<void>((resolve) => {
      left = resolve;
    });
    const listener = await network.listen(0, {
      asked(key, mayWait, caller) {
        asked.push(`${mayWait ? 'wait' : 'now'} ${key}`);
        if (key === 'here') caller.ready();
        else caller.refuse('no such blocks');
        return left;
      },
    });
    closing.push(() => listener.close());
    const fetched = (key: string, port = listener.port) =>
      new Promise<string>((resolve) => {
        const fetching = network.fetch(
          { host: '127.0.0.1', port, key, mayWait: true },
          () => {
            resolve('ready');
            fetching.close();
          },
          resolve,
        );
      });
    return { network, fetched, asked, gone, listener };
  }

  it('tell the holder who asks and when it has gone', async () => {
    const { fetched, asked, gone } = await open();
    expect(await fetched('here')).toBe('ready');
    await gone;
    expect(asked).toEqual(['wait here']);
  });

  it('fail when the blocks do not exist, and when no engine listens', async () => {
    const { fetched, listener } = await open();
    expect(await fetched('elsewhere')).toContain('no such blocks');
    await listener.close();
    closing.length = 0;
    expect(await fetched('here')).toMatch(/ECONNREFUSED|closed/);
  });

  it('tell the caller when the holder goes while the blocks move', async () => {
    const { network, listener } = await open();
    const told: string[] = [];
    await new Promise<void>((resolve) => {
      const ready = (): void => {
        told.push('ready');
        void listener.close();
      };
      network.fetch({ host: '127.0.0.1', port: listener.port, key: 'here', mayWait: false }, ready, (reason) => {
        told.push(reason);
        resolve();
      });
    });
    closing.length = 0;
    expect(told).toEqual(['ready', expect.stringMatching(/ECONNRESET|closed/)]);
  });
});
