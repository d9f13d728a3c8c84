import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { chainHashes } from '../../../shared/tokens/index.ts';
import { difference, pairOf, pairsOf } from './row.ts';

/** A line of index-sequences.jsonl. */
export interface IndexSequence {
  readonly id: string;
  readonly note?: string;
  readonly ops: readonly Operation[];
  readonly queries: readonly {
    readonly after: number;
    readonly local: readonly string[];
    readonly scores: readonly (readonly [worker: Id, rank: number, blocks: number])[];
  }[];
}

type Id = number | bigint | string;

interface Operation {
  readonly worker?: Id;
  readonly rank?: number;
  readonly data?:
    | 'cleared'
    | { readonly stored: { readonly parent: string | null; readonly blocks: readonly (readonly [string, string])[] } }
    | { readonly removed: readonly string[] };
  readonly remove_worker?: unknown;
  readonly clear_all_ranks?: unknown;
  /** Absent for success. */
  readonly error?: string;
}

/** Applies the operations and the queries in order. Returns the differences from the record. */
export function playIndexSequence({ ops, queries }: IndexSequence): readonly string[] {
  const ranks = new RankTable();
  const index = new BlockIndex({ ranks });
  const overlaps = new Overlaps(0);
  const failures: string[] = [];
  let done = 0;
  const applyUpTo = (end: number): void => {
    for (; done < end; done++) {
      const operation = ops[done]!;
      failures.push(...difference(`operation ${done}`, operation.error ?? 'ok', apply(index, ranks, operation)));
    }
  };
  for (const { after, local, scores } of queries) {
    applyUpTo(after);
    const hashes = pairsOf(local);
    index.match({ local: hashes, sequence: chainHashes(hashes) }, overlaps);
    const found = [...overlaps.ranks.subarray(0, overlaps.count)].map((rank) =>
      [ranks.workerIdOf(rank), ranks.dpRankOf(rank), overlaps.device[rank]].join(' '),
    );
    const wanted = scores.map((score) => score.join(' '));
    failures.push(...difference(`query after ${after}`, wanted.sort(), found.sort()));
  }
  applyUpTo(ops.length);
  return failures;
}

function apply(index: BlockIndex, ranks: RankTable, operation: Operation): string {
  const workerId = `${operation.worker}`;
  if (operation.remove_worker !== undefined || operation.clear_all_ranks !== undefined) {
    for (const rank of ranks.ranksOf(workerId)) index.cleared(rank);
    return 'ok';
  }
  const rank = ranks.intern(workerId, operation.rank ?? 0);
  const { data } = operation;
  if (data === 'cleared') index.cleared(rank);
  if (data === undefined || data === 'cleared') return 'ok';
  if ('removed' in data) return index.removed(rank, 'device', pairsOf(data.removed));
  const { parent, blocks } = data.stored;
  const externals = pairsOf(blocks.map(([external]) => external));
  const locals = pairsOf(blocks.map(([, local]) => local));
  return index.stored(rank, 'device', parent === null ? undefined : pairOf(parent), externals, locals);
}
