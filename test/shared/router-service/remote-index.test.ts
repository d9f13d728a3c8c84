import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApproximateIndex, BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { PlaneServer, RequestPlane, Transport } from '../../../shared/planes/index.ts';
import {
  type IndexerAddress,
  RemoteIndex,
  type ServedIndex,
  serveIndexOnPlane,
} from '../../../shared/router-service/index.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { BLOCK, NEVER, prompt, settle } from './resident-rig.ts';

const hashesOf = (tokens: Uint32Array) => hashBlocks(tokens, { blockSizeTokens: BLOCK });

/** An indexer and a router that asks it, on one memory plane. */
class Rig {
  readonly clock = new VirtualClock();
  readonly plane: RequestPlane = createMemoryRequestPlane({ clock: this.clock });
  /** Of the indexer. */
  readonly ranks = new RankTable();
  readonly served = new BlockIndex({ ranks: this.ranks });
  readonly decisions = new ApproximateIndex({ ranks: this.ranks, clock: this.clock, policy: 'ttl', ttlMs: 1000 });
  /** Of the router that asks: numbered in another order. */
  readonly own = new RankTable();
  readonly failures = { queries: 0, writes: 0 };
  readonly remote: RemoteIndex;
  readonly isRecording: boolean;
  indexers: readonly IndexerAddress[] = [];
  server: PlaneServer | undefined;

  constructor({ isRecording = false } = {}) {
    this.isRecording = isRecording;
    this.own.intern('ffffffffffffffff', 3);
    this.own.intern('2', 0);
    this.own.intern('1', 0);
    this.remote = new RemoteIndex({
      plane: this.plane,
      clock: this.clock,
      random: seededRandom(1),
      ranks: this.own,
      model: 'm',
      indexers: () => this.indexers,
      isRecording,
      observer: { queryFailed: () => this.failures.queries++, writeFailed: () => this.failures.writes++ },
    });
  }

  async serve(): Promise<void> {
    this.server = await this.plane.serve({ instanceId: '9' });
    const index = this.isRecording ? this.decisions : this.served;
    const served: ServedIndex = { index, ranks: this.ranks };
    const endpoints = serveIndexOnPlane(this.server, {
      instanceId: '9',
      namespace: 'ns',
      component: 'backend',
      find: (model) => (model === 'm' ? served : undefined),
      isRecording: this.isRecording,
    });
    const transportOf = (name: string) => endpoints.find(({ endpoint }) => endpoint === name)?.transport;
    const query = transportOf('kv_indexer_query') as Transport;
    const record = transportOf('kv_indexer_record_routing_decision');
    this.indexers = [{ instanceId: '9', query, record }];
  }

  /** Answer of the indexer to a record as any client may send it. */
  async ask(transport: Transport | undefined, body: unknown): Promise<unknown> {
    const answers: unknown[] = [];
    const sink = { accepted() {}, tokens() {}, end() {}, fail: (error: Error) => void answers.push(error) };
    this.plane.call(
      transport as Transport,
      { id: 'q', headers: {}, body },
      {
        ...sink,
        output: (output) => void answers.push(output.body),
      },
    );
    await settle();
    return answers[0];
  }

  /** What the router then knows of a prompt, by worker and rank. */
  async look(tokens: Uint32Array): Promise<Record<string, readonly number[]>> {
    const hashes = hashesOf(tokens);
    const looking = this.remote.look(hashes, NEVER);
    await settle();
    await this.clock.advance(50);
    await looking;
    const overlaps = new Overlaps(this.own.capacity);
    this.remote.match(hashes, overlaps);
    return Object.fromEntries(
      [...overlaps.ranks.subarray(0, overlaps.count)].map((rank) => [
        `${this.own.workerIdOf(rank)}/${this.own.dpRankOf(rank)}`,
        [overlaps.device[rank] as number, overlaps.host[rank] as number, overlaps.disk[rank] as number],
      ]),
    );
  }
}

const LONG = prompt(4 * BLOCK);

describe('an index that another process serves', () => {
  it('tells how far each rank holds a prompt, tier by tier, in the shape of Dynamo', async () => {
    const rig = new Rig();
    await rig.serve();
    const { local, sequence } = hashesOf(LONG);
    const far = rig.ranks.intern('ffffffffffffffff', 3);
    rig.served.stored(rig.ranks.intern('1', 0), 'device', undefined, sequence.slice(0, 4), local.slice(0, 4));
    rig.served.stored(far, 'device', undefined, sequence.slice(0, 2), local.slice(0, 2));
    rig.served.stored(far, 'host_pinned', [sequence[0]!, sequence[1]!], sequence.slice(2, 6), local.slice(2, 6));
    const hashes = [...new BigUint64Array(local.slice().buffer)];
    const query = { model_name: 'm', block_hashes: hashes.map(String) };
    const [first, last] = [
      { worker_id: '1', dp_rank: 0 },
      { worker_id: '18446744073709551615', dp_rank: 3 },
    ];
    const answer = (await rig.ask(rig.indexers[0]?.query, query)) as {
      TieredScores: { device: { scores: unknown[] } };
    };
    expect(answer).toEqual({
      TieredScores: {
        device: {
          scores: expect.arrayContaining([
            [first, 2],
            [last, 1],
          ]),
          frequencies: [],
        },
        lower_tier: [['host_pinned', { hits: [[last, 2]] }]],
      },
    });
    expect(await rig.ask(rig.indexers[0]?.query, { ...query, device_only: true })).toMatchObject({
      TieredScores: { lower_tier: [] },
    });
    expect(await rig.ask(rig.indexers[0]?.query, { ...query, block_hashes: hashes })).toEqual(answer);
    expect(await rig.look(LONG)).toEqual({ '1/0': [2, 0, 0], 'ffffffffffffffff/3': [1, 2, 0] });
    expect(rig.failures).toEqual({ queries: 0, writes: 0 });
  });

  it('finds what the index itself would find, for any prompts and holders', async () => {
    const lengths = fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 1, max: 9 })), {
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(lengths, fc.integer({ min: 0, max: 9 }), async (stored, askedBlocks) => {
        const rig = new Rig();
        await rig.serve();
        for (const [at, blocks] of stored) {
          const { local, sequence } = hashesOf(prompt(blocks * BLOCK));
          rig.served.stored(rig.ranks.intern(String(at + 1), 0), 'device', undefined, sequence, local);
        }
        const expected: Record<string, number[]> = {};
        for (const worker of ['1', '2']) {
          const held = Math.max(0, ...stored.filter(([at]) => String(at + 1) === worker).map(([, blocks]) => blocks));
          const found = Math.min(held, askedBlocks);
          if (found > 0) expected[`${worker}/0`] = [found, 0, 0];
        }
        expect(await rig.look(prompt(askedBlocks * BLOCK))).toEqual(expected); // worker 3 is not known here
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    ['a model that it does not have', { model_name: 'other', block_hashes: [] }, /no index for model other/],
    [
      'a hash that JSON has rounded',
      { model_name: 'm', block_hashes: [2 ** 63] },
      /block_hashes\[0\] must be an exact u64/,
    ],
    ['a record without hashes', { model_name: 'm' }, /block_hashes must be a list/],
    ['no record', 7, /message must be a record/],
  ])('says what is wrong with %s', async (_, body, reason) => {
    const rig = new Rig();
    await rig.serve();
    expect(await rig.ask(rig.indexers[0]?.query, body)).toEqual({ Error: expect.stringMatching(reason) });
  });

  it('learns of decisions if there are no events, and forgets them in time', async () => {
    const rig = new Rig({ isRecording: true });
    await rig.serve();
    rig.ranks.intern('2', 0);
    rig.remote.decided('r', rig.own.find('2', 0) as number, hashesOf(LONG));
    await settle();
    expect(await rig.look(LONG)).toEqual({ '2/0': [4, 0, 0] });
    await rig.clock.advance(1200);
    expect(await rig.look(LONG)).toEqual({});
    expect(rig.failures).toEqual({ queries: 0, writes: 0 });
  });

  it('takes a decision as any client writes it, and refuses one about an unknown rank', async () => {
    const rig = new Rig({ isRecording: true });
    await rig.serve();
    rig.ranks.intern('2', 0);
    const { local, sequence } = hashesOf(LONG);
    const [locals, sequences] = [local, sequence].map((pairs) => [...new BigUint64Array(pairs.slice().buffer)]);
    const worker = { worker_id: 2, dp_rank: 0 };
    const record = { model_name: 'm', worker, local_hashes: locals, sequence_hashes: sequences };
    expect(await rig.ask(rig.indexers[0]?.record, record)).toBe('Recorded');
    expect(await rig.look(LONG)).toEqual({ '2/0': [4, 0, 0] });
    const unknown = { ...record, worker: { worker_id: '7', dp_rank: 0 } };
    expect(await rig.ask(rig.indexers[0]?.record, unknown)).toEqual({ Error: expect.stringMatching(/worker 7/) });
  });

  it('counts each request without an answer, and does not ask a silent index for a while', async () => {
    const rig = new Rig();
    expect(await rig.look(LONG)).toEqual({}); // nobody serves one
    await rig.serve();
    const silent = rig.server?.handle('9/ns/backend/silent', () => {}) as Transport;
    const [indexer] = rig.indexers as [IndexerAddress];
    rig.indexers = [{ ...indexer, query: silent }];
    expect(await rig.look(LONG)).toEqual({});
    rig.indexers = [indexer];
    rig.served.stored(rig.ranks.intern('1', 0), 'device', undefined, hashesOf(LONG).sequence, hashesOf(LONG).local);
    expect(await rig.look(LONG)).toEqual({}); // paused
    expect(rig.failures.queries).toBe(3);
    await rig.clock.advance(250);
    expect(await rig.look(LONG)).toEqual({ '1/0': [4, 0, 0] });
    await rig.server?.close();
    await rig.clock.advance(250);
    expect(await rig.look(LONG)).toEqual({});
    expect(rig.failures.queries).toBe(4);
  });

  it('counts decisions that no index takes', async () => {
    const rig = new Rig({ isRecording: true });
    rig.remote.decided('r', rig.own.find('2', 0) as number, hashesOf(LONG));
    await rig.serve(); // it has never heard of worker 2
    rig.remote.decided('r', rig.own.find('2', 0) as number, hashesOf(LONG));
    await settle();
    expect(rig.failures.writes).toBe(2);
  });
});
