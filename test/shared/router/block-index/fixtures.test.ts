import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createBlockIndex, type HashPair } from '../../../../shared/router/block-index/index.ts';
import { Overlaps } from '../../../../shared/router/overlaps.ts';
import { RankTable } from '../../../../shared/router/rank-table.ts';
import { chainHashes } from '../../../../shared/tokens/index.ts';

interface Operation {
  readonly worker?: number | string;
  readonly rank?: number;
  readonly data?:
    | 'cleared'
    | { readonly stored: { readonly parent: string | null; readonly blocks: readonly (readonly [string, string])[] } }
    | { readonly removed: readonly string[] };
  readonly remove_worker?: unknown;
  readonly clear_all_ranks?: unknown;
  readonly error?: string;
}

interface Sequence {
  readonly id: string;
  readonly note: string;
  readonly ops: readonly Operation[];
  readonly queries: readonly {
    readonly after: number;
    readonly local: readonly string[];
    readonly scores: readonly (readonly [number | string, number, number])[];
  }[];
}

const path = new URL('../../../fixtures/router/index-sequences.jsonl', import.meta.url);
const sequences = readFileSync(path, 'utf8')
  .trim()
  .split('\n')
  // Worker ids beyond 2^53 are plain numbers in the file.
  .map(
    (line) => JSON.parse(line.replace(/"worker":(\d+)/g, '"worker":"$1"').replace(/\[(\d+),/g, '["$1",')) as Sequence,
  );

describe('block index on recorded event sequences', () => {
  it.each(sequences)('$id: $note', ({ ops, queries }) => {
    const ranks = new RankTable();
    const index = createBlockIndex({ ranks });
    const overlaps = new Overlaps(0);
    const apply = (operation: Operation): string => {
      const workerId = `${operation.worker}`;
      if (operation.remove_worker !== undefined || operation.clear_all_ranks !== undefined) {
        for (const rank of ranks.ranksOf(workerId)) index.cleared(rank);
        return 'ok';
      }
      const rank = ranks.intern(workerId, operation.rank ?? 0);
      const { data } = operation;
      if (data === 'cleared') index.cleared(rank);
      else if (data !== undefined && 'removed' in data) return index.removed(rank, 'device', pairs(data.removed));
      else if (data !== undefined) {
        const { parent, blocks } = data.stored;
        const externals = pairs(blocks.map(([external]) => external));
        const locals = pairs(blocks.map(([, local]) => local));
        return index.stored(rank, 'device', parent === null ? undefined : pair(parent), externals, locals);
      }
      return 'ok';
    };
    let done = 0;
    for (const { after, local, scores } of queries) {
      for (; done < after; done++) expect(apply(ops[done] as Operation)).toBe(ops[done]?.error ?? 'ok');
      const hashes = pairs(local);
      index.match({ local: hashes, sequence: chainHashes(hashes) }, overlaps);
      const found = [...overlaps.ranks.subarray(0, overlaps.count)].map((rank) => [
        `${ranks.workerIdOf(rank)}`,
        ranks.dpRankOf(rank),
        overlaps.device[rank],
      ]);
      expect(found.sort()).toEqual(scores.map(([worker, rank, blocks]) => [`${worker}`, rank, blocks]).sort());
    }
  });
});

function pair(decimal: string): HashPair {
  const hash = BigInt(decimal);
  return [Number(hash & 0xffff_ffffn), Number(hash >> 32n)];
}

function pairs(decimals: readonly string[]): Uint32Array {
  return Uint32Array.from(decimals.flatMap((decimal) => pair(decimal)));
}
