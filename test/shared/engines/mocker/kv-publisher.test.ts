import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine, KvEvent } from '../../../../shared/engines/index.ts';
import { EventRelay } from '../../../../shared/engines/kv-stream/event-relay.ts';
import { sourcesOfRanks } from '../../../../shared/engines/kv-stream/event-sources.ts';
import { createMockEngine } from '../../../../shared/engines/mocker/mock-engine.ts';
import type { MockEngineOptions } from '../../../../shared/engines/mocker/options.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { freePort, waitUntil } from '../../../support/index.ts';
import { engineRequest, RecordingSink, range } from './support.ts';

const FAST = { speedupRatio: 1_000_000, decodeSpeedupRatio: 1000 };

/** What a router keeps of the events of one engine: each rank's blocks, by both of their hashes. */
class Holdings {
  readonly #blocks = new Map<string, string>();

  apply(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === 'cleared') this.#clear(event.dpRank);
      else if (event.kind === 'removed')
        for (const name of namesOf(event.dpRank, event.blockHashes)) this.#blocks.delete(name);
      else
        namesOf(event.dpRank, event.blockHashes).forEach(
          (name, at) => void this.#blocks.set(name, `${event.tokensHashes.slice(2 * at, 2 * at + 2)}`),
        );
    }
  }

  get list(): readonly string[] {
    return [...this.#blocks].map(([name, tokens]) => `${name} ${tokens}`).sort();
  }

  #clear(dpRank: number): void {
    for (const name of this.#blocks.keys()) if (name.startsWith(`${dpRank} `)) this.#blocks.delete(name);
  }
}

function namesOf(dpRank: number, hashes: Uint32Array): readonly string[] {
  return Array.from({ length: hashes.length / 2 }, (_, at) => `${dpRank} ${hashes.slice(2 * at, 2 * at + 2)}`);
}

describe('the KV events that a mock engine publishes like vLLM', () => {
  let engine: Engine;
  let relay: EventRelay | undefined;
  let told: Holdings;
  let followed: Holdings;
  let dropped: number;
  let port: number;
  let replayPort: number;

  async function start(options: MockEngineOptions = {}): Promise<void> {
    [port, replayPort] = [await freePort(), await freePort()];
    const kvStream = { host: '127.0.0.1', port, replayPort };
    engine = createMockEngine(
      { blockSizeTokens: 16, numGpuBlocks: 64, ...FAST, kvStream, ...options },
      { clock: systemClock },
    );
    told = new Holdings();
    engine.onKvEvents((events) => told.apply(events));
    await engine.start(new AbortController().signal);
  }

  async function follow({ ranks = 1, catchesUp = false } = {}): Promise<void> {
    followed = new Holdings();
    dropped = 0;
    const endpoint = `tcp://*:${port}`;
    const replayEndpoint = `tcp://*:${replayPort}`;
    relay = new EventRelay({
      sources: sourcesOfRanks({ endpoint, replayEndpoint, topic: '' }, { first: 0, count: ranks }, '127.0.0.1'),
      blockSizeTokens: 16,
      logger: captureLogger().logger,
      onDropped: (count) => {
        dropped += count;
      },
    });
    relay.listen((events) => followed.apply(events));
    await relay.open();
    if (catchesUp) relay.catchUp();
  }

  /** Follows from an empty cache on. */
  async function followFromStart(ranks = 1): Promise<void> {
    await start({ dataParallelSize: ranks });
    await follow({ ranks });
    for (let dpRank = 0; dpRank < ranks; dpRank++) await untilHeard(dpRank);
    await engine.clearKvBlocks?.(new AbortController().signal);
    await untilFollowed();
  }

  let requests = 0;
  async function ask(prompt: readonly number[], routing: object = {}): Promise<void> {
    const sink = new RecordingSink();
    engine.generate(engineRequest(`r${requests++}`, prompt, { routing }), sink, new AbortController().signal);
    await waitUntil(() => sink.isEnded || sink.error !== undefined, { what: 'an answer' });
    expect(sink.error).toBeUndefined();
  }

  /** A subscription takes effect late: asks for one prompt after the other until the follower hears of one. */
  async function untilHeard(dpRank = 0): Promise<void> {
    const known = new Set(followed.list);
    await waitUntil(async () => {
      await ask(range(50, 50_000 + 50 * requests), { dp_rank: dpRank });
      return followed.list.some((block) => block.startsWith(`${dpRank} `) && !known.has(block));
    });
  }

  async function untilFollowed(): Promise<void> {
    await waitUntil(() => followed.list.join() === told.list.join(), {
      what: 'the follower to know what the engine holds',
    });
    expect(dropped).toBe(0);
  }

  afterEach(async () => {
    await relay?.close();
    await engine.stop();
    relay = undefined;
  });

  it('tell a follower what the engine tells its worker, while blocks come and go', async () => {
    await followFromStart();
    for (let at = 0; at < 12; at++) await ask(range(170, 1000 * at));
    expect(told.list.length).toBeGreaterThan(50); // the cache is full: blocks were evicted
    await untilFollowed();
    await engine.clearKvBlocks?.(new AbortController().signal);
    await ask(range(40));
    await untilFollowed();
    expect(followed.list).toHaveLength(2);
  });

  it('can be had again by one who comes late', async () => {
    await start();
    for (let at = 0; at < 12; at++) await ask(range(170, 1000 * at));
    await follow({ catchesUp: true });
    await untilFollowed();
    await untilHeard();
    await untilFollowed();
  });

  it('carry adapters and cache salts, of later blocks too', async () => {
    await followFromStart();
    const scope = { lora_name: 'adapter', cache_salt: 'tenant' };
    for (const routing of [{}, { lora_name: 'adapter' }, { cache_salt: 'tenant' }, scope]) {
      await ask(range(70), routing);
      await ask(range(150), routing);
    }
    expect(told.list).toHaveLength(4 * 9);
    await untilFollowed();
  });

  it('come from a port for each rank', async () => {
    await followFromStart(2);
    await ask(range(50), { dp_rank: 0 });
    await ask(range(80), { dp_rank: 1 });
    await untilFollowed();
    expect(followed.list.filter((block) => block.startsWith('1 '))).toHaveLength(5);
  });

  it('keep an engine from starting whose port is in use', async () => {
    await start();
    const kvStream = { host: '127.0.0.1', port };
    const second = createMockEngine({ kvStream }, { clock: systemClock });
    await expect(second.start(new AbortController().signal)).rejects.toThrow(`${port}`);
    await second.stop();
  });
});
