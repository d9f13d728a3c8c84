import { describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import { type BlockIndex, createBlockIndex, loadBlockIndex } from '../../../../shared/router/block-index/index.ts';
import { RankTable } from '../../../../shared/router/rank-table.ts';
import {
  createMemorySnapshotStore,
  type FoldedIndex,
  foldBlockIndex,
  IndexReader,
  LeaseHolder,
  MemoryRouterStateHub,
  type RankCursor,
  type RankId,
  Snapshotter,
} from '../../../../shared/router/state/index.ts';
import { ScriptedEventLog } from './event-log.ts';

const never = new AbortController().signal;
const NAME = { namespace: 'ns', name: 'backend' };
const RANKS: readonly RankId[] = [
  { workerId: 'a1', dpRank: 0 },
  { workerId: '1fffffffffffff', dpRank: 3 },
];

interface Stored {
  readonly rank: RankId;
  readonly eventId: number;
  readonly blocks: readonly number[];
}

/** A block index whose ranks store what messages say. */
function openIndex() {
  const ranks = new RankTable();
  let cursors = new Map<string, RankCursor>();
  let index: BlockIndex | undefined;
  const recovered: RankId[] = [];
  const fold = foldBlockIndex({
    create: () => createBlockIndex({ ranks }),
    load: (snapshot) => loadBlockIndex(snapshot, { ranks }).index,
    onReplaced: (next) => {
      index = next;
    },
    followers: {
      apply({ payload }) {
        const { rank, eventId, blocks } = payload as Stored; // written by this test
        const hashes = Uint32Array.from(blocks.flatMap((block) => [block, 1]));
        index?.stored(ranks.intern(rank.workerId, rank.dpRank), 'device', undefined, hashes, hashes);
        cursors.set(JSON.stringify(rank), { ...rank, eventId, publisherId: 'fedcba9876543210' });
      },
      cursors: () => [...cursors.values()],
      resume(next) {
        cursors = new Map(
          next.map(({ workerId, dpRank, ...rest }) => [
            JSON.stringify({ workerId, dpRank }),
            { workerId, dpRank, ...rest },
          ]),
        );
      },
      ranks: () => RANKS,
      recover: async (rank) => void recovered.push(rank),
    },
  });
  const dump = () => RANKS.map(({ workerId, dpRank }) => fold.index.dump(ranks.find(workerId, dpRank) ?? 99));
  return { fold, dump, recovered, cursors: () => [...cursors.values()] };
}

describe('a block index', () => {
  it('goes through a snapshot and the log behind it, block for block', async () => {
    const clock = new VirtualClock();
    const random = seededRandom(1);
    const hub = new MemoryRouterStateHub(clock);
    const log = new ScriptedEventLog();
    const common = { state: hub.open(), log, store: createMemorySnapshotStore(), clock, random, pointer: NAME };
    const onProblem = (problem: unknown): void => expect.unreachable(String(problem));
    const read = (index: FoldedIndex) => new IndexReader({ ...common, index, onProblem });
    const publish = (at: number, eventId: number, blocks: readonly number[]): void =>
      log.append({ rank: RANKS[at]!, eventId, blocks } satisfies Stored);

    const first = openIndex();
    const writer = read(first.fold);
    writer.start();
    await clock.advance(10);
    publish(0, 1, [10, 11, 12]);
    publish(1, 1, [10, 20]);
    await clock.advance(10);
    const lease = new LeaseHolder({ ...common, lease: NAME, onProblem });
    lease.start();
    await clock.advance(10);
    const snapshotter = new Snapshotter({ ...common, index: first.fold, reader: writer, lease, onProblem });
    expect(await snapshotter.snapshot(never)).toBe('written');
    publish(0, 2, [30]);

    const second = openIndex();
    const reader = read(second.fold);
    reader.start();
    for (let turn = 0; turn < 10; turn++) await clock.advance(1);
    expect(reader.hydratedFrom).toBe('snapshot');
    expect(second.recovered).toEqual([]);
    expect(second.cursors()).toEqual(first.cursors());
    expect(second.dump().flat().length).toBeGreaterThan(0);
    expect(second.dump()).toEqual(first.dump());
    await Promise.all([writer.stop(), reader.stop(), lease.stop(never)]);
  });

  it('stays as it is when a snapshot turns out to be damaged', async () => {
    const { fold } = openIndex();
    const before = fold.index;
    await expect(fold.load(new Uint8Array(100), [], never)).rejects.toThrow();
    expect(fold.index).toBe(before);
    fold.clear();
    expect(fold.index).not.toBe(before);
  });
});
