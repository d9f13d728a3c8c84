import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Subscriber } from 'zeromq';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import { EventRelay } from '../../../../shared/engines/kv-stream/event-relay.ts';
import { sourcesOfRanks } from '../../../../shared/engines/kv-stream/event-sources.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import { FakePublisher } from './fake-publisher.ts';

const store = (hash: number, parent: number | null = null): unknown => ({
  type: 'BlockStored',
  block_hashes: [hash],
  parent_block_hash: parent,
  token_ids: [hash],
  block_size: 1,
  medium: 'GPU',
});

describe('relay of KV events', () => {
  let engine: FakePublisher;
  let relay: EventRelay;
  let seen: string[];
  let dropped: number;
  let warnings: () => string[];

  async function follow({ replay = true, replayTimeoutMs = 10_000 } = {}): Promise<void> {
    const { logger, lines } = captureLogger();
    warnings = () => lines.filter(({ level }) => level === 'warn').map(({ fields }) => String(fields?.problem));
    const replayEndpoint = replay ? engine.replayEndpoint : undefined;
    // A publisher with a plain address would be one that connects: written with a wildcard, as engines are told to bind.
    const endpoint = engine.endpoint.replace('127.0.0.1', '*');
    relay = new EventRelay({
      sources: sourcesOfRanks({ endpoint, replayEndpoint, topic: 'kv-events' }, { first: 0, count: 1 }, '127.0.0.1'),
      blockSizeTokens: 1,
      logger,
      replayTimeoutMs,
      onDropped: (count) => {
        dropped += count;
      },
    });
    relay.listen((events) => seen.push(...events.map(spell)));
    await relay.open();
    // A subscriber joins late: batches are published until one arrives, then a last one that is waited for.
    await waitUntil(async () => {
      await engine.publish([store(1000)]);
      return seen.length > 0;
    });
    await engine.publish([store(1001)]);
    await waitUntil(() => seen.includes('+1001'));
    seen.length = 0;
    dropped = 0;
  }

  /** Follows, loses store 1, and has asked for it, which is answered once what this returns is called. */
  async function askedForFirst(): Promise<() => void> {
    await follow();
    let answer = (): void => {};
    engine.held = new Promise((resolve) => {
      answer = resolve;
    });
    const lost = await engine.publish([store(1)], { lost: true });
    await engine.publish([store(2)]);
    await waitUntil(() => engine.asked.at(-1) === lost);
    return answer;
  }

  beforeEach(async () => {
    engine = await new FakePublisher().open();
    seen = [];
    dropped = 0;
  });

  afterEach(async () => {
    await relay.close();
    engine.close();
  });

  it('gives on what happens, in order', async () => {
    await follow();
    await engine.publish([store(1), store(2, 1)]);
    await engine.publish([{ type: 'BlockRemoved', block_hashes: [2], medium: 'GPU' }]);
    await engine.publish([{ type: 'AllBlocksCleared' }]);
    await waitUntil(() => seen.length >= 4);
    expect(seen).toEqual(['+1', '+2<1', '-2', 'cleared']);
  });

  it('drops an event that cannot be named, and gives on those behind it', async () => {
    await follow();
    await engine.publish([{ ...(store(1) as object), lora_name: 'x'.repeat(200_000) }, store(2)]);
    await engine.publish([store(3)]);
    await waitUntil(() => seen.includes('+3'));
    expect(seen).toEqual(['+2', '+3']);
    expect(dropped).toBe(1);
    expect(warnings()).toEqual([expect.stringContaining('200000 bytes')]);
  });

  it.each([true, false])(
    'asks for what was lost on the way and sees no batch twice (topic in replies: %s)',
    async (topic) => {
      engine.repliesWithTopic = topic;
      await follow();
      await engine.publish([store(1)]);
      const lost = await engine.publish([store(2)], { lost: true });
      await engine.publish([store(3)], { lost: true });
      await engine.publish([store(4)]);
      await engine.publish([store(5)]);
      await waitUntil(() => seen.includes('+5'));
      expect(seen).toEqual(['+1', '+2', '+3', '+4', '+5']);
      expect(engine.asked.at(-1)).toBe(lost);
      expect(dropped).toBe(0);
    },
  );

  it('asks again for what was lost while it was waiting for an answer', async () => {
    const answer = await askedForFirst();
    await engine.publish([store(3)], { lost: true });
    const beside = new Subscriber({ linger: 0 }); // joins behind the relay, so that what it sees has come there, too
    beside.subscribe();
    beside.connect(engine.endpoint);
    let hasHeard = false;
    void beside.receive().then(() => {
      hasHeard = true;
    });
    let last = 3;
    await waitUntil(async () => {
      await engine.publish([store(++last)]);
      return hasHeard;
    });
    beside.close();
    answer();
    await waitUntil(() => seen.includes(`+${last}`));
    expect(seen).toEqual(Array.from({ length: last }, (_, at) => `+${at + 1}`));
    expect(dropped).toBe(0);
  });

  it('gets all blocks of a new engine, also when its first batch comes during a replay', async () => {
    const answer = await askedForFirst();
    relay.restart();
    answer();
    await waitUntil(() => engine.asked.at(-1) === 0);
    await waitUntil(() => seen.slice(seen.indexOf('cleared')).includes('+2'));
    expect(seen.slice(0, 3)).toEqual(['+1', '+2', 'cleared']);
    expect([...new Set(seen.slice(3))]).toEqual(['+1000', '+1001', '+1', '+2']);
  });

  it('continues without batches that the engine no longer has, and counts them', async () => {
    await follow();
    await engine.publish([store(1)], { lost: true });
    await engine.publish([store(2)], { lost: true });
    engine.forget(1_000_000);
    await engine.publish([store(3)]);
    await waitUntil(() => seen.includes('+3'));
    expect(seen).toEqual(['+3']);
    expect(dropped).toBe(2);
    expect(warnings().join()).toContain('no longer kept by the engine');
  });

  it.each(['no answer', 'no replay endpoint'])('continues after a gap that no replay fills: %s', async (why) => {
    await follow({ replay: why !== 'no replay endpoint', replayTimeoutMs: 200 });
    engine.answers = false;
    await engine.publish([store(1)], { lost: true });
    await engine.publish([store(2)]);
    await engine.publish([store(3)]);
    await waitUntil(() => seen.includes('+3'));
    expect(seen).toEqual(['+2', '+3']);
    expect(dropped).toBe(1);
  });

  it('removes all blocks when the engine restarts, and follows the new process from its first batch', async () => {
    await follow();
    await engine.publish([store(1)]);
    await waitUntil(() => seen.includes('+1'));
    engine.restart();
    await engine.publish([store(2)], { lost: true });
    await engine.publish([store(3)]);
    await waitUntil(() => seen.includes('+3'));
    expect(seen).toEqual(['+1', 'cleared', '+2', '+3']);
  });

  it('learns at once what an engine holds that ran before it', async () => {
    await engine.publish([store(1)]);
    await engine.publish([store(2, 1)]);
    await follow();
    relay.restart();
    await waitUntil(() => seen.includes('+2<1'));
    expect(seen.slice(0, 3)).toEqual(['cleared', '+1', '+2<1']);
  });

  it('continues after messages that are not batches', async () => {
    await follow();
    await engine.send(['kv-events', 'x']);
    await engine.send(['kv-events', Buffer.alloc(8, 1), Buffer.from('nonsense')]);
    await engine.publish([store(1), { type: 'Novelty' }]);
    await waitUntil(() => seen.includes('+1'));
    expect(dropped).toBe(1);
  });

  it('tells once that the cache was emptied on our own word', async () => {
    await follow();
    await engine.publish([store(1)]);
    await waitUntil(() => seen.includes('+1'));
    relay.clear();
    await engine.publish([{ type: 'AllBlocksCleared' }, store(2)]);
    await waitUntil(() => seen.includes('+2'));
    expect(seen).toEqual(['+1', 'cleared', '+2']);
  });
});

describe('endpoints of ranks', () => {
  it('adds the rank to the port, replaces wildcards, and binds where the engine connects', () => {
    const source = { endpoint: 'tcp://*:5557', replayEndpoint: 'tcp://*:6000', topic: '' };
    expect(sourcesOfRanks(source, { first: 0, count: 2 }, '10.0.0.5')[1]).toEqual({
      dpRank: 1,
      endpoint: 'tcp://10.0.0.5:5558',
      binds: false,
      replayEndpoint: 'tcp://10.0.0.5:6001',
      topic: '',
    });
    const plain = { endpoint: 'tcp://127.0.0.1:7000', replayEndpoint: undefined, topic: '' };
    expect(sourcesOfRanks(plain, { first: 0, count: 1 }, 'x')[0]).toMatchObject({
      binds: true,
      endpoint: 'tcp://127.0.0.1:7000',
    });
    const six = { endpoint: 'tcp://[::]:7000', replayEndpoint: undefined, topic: '' };
    expect(sourcesOfRanks(six, { first: 0, count: 1 }, 'fd00::1')[0]).toMatchObject({
      binds: false,
      endpoint: 'tcp://[fd00::1]:7000',
    });
  });
});

function spell(event: KvEvent): string {
  if (event.kind === 'cleared') return 'cleared';
  const names = [...event.blockHashes].filter((_, at) => at % 2 === 0).join();
  if (event.kind === 'removed') return `-${names}`;
  return event.parentHash === undefined ? `+${names}` : `+${names}<${event.parentHash[0]}`;
}
