import type { Overlaps } from '../overlaps.ts';
import { LEVEL_MASK } from './engine-names.ts';
import { ALONE, HOLDER_MASK, RECENT, TENURE_SHIFT, TIERS_MASK } from './holder-sets.ts';
import { fastest, type Holdings } from './holdings.ts';

/**
 * Longest held prefixes of a chain of sequence hashes. A block is found by the hash of its whole prefix, and its holders
 * are among those of every block before it; so the chain's end and the stretches with equal holders are found by halving,
 * and most blocks are never looked at:
 *
 *     block     0 . . . . . 63 64 . . . . 200 | 201 . .     not in the index from 201 on
 *     holders   { a b c d }    { b }          |
 */
export function matchChain(holdings: Holdings, sequence: Uint32Array, overlaps: Overlaps): void {
  const { blocks, table } = holdings;
  const blockAt = (at: number): number => table.findBlock((sequence[2 * at] ?? 0) | 0, (sequence[2 * at + 1] ?? 0) | 0);
  const count = sequence.length >> 1;
  const first = count === 0 ? 0 : blockAt(0);
  if (first === 0) return;
  let last = count - 1;
  let lastBlock = blockAt(last);
  if (lastBlock === 0) {
    // Found at `found`, missing from `last` on.
    let found = 0;
    lastBlock = first;
    while (last - found > 1) {
      const middle = (found + last) >>> 1;
      const block = blockAt(middle);
      if (block === 0) last = middle;
      else {
        found = middle;
        lastBlock = block;
      }
    }
    last = found;
  }
  const outer = blocks.holders(first) & ~RECENT;
  for (let holders = blocks.holders(lastBlock) & ~RECENT; ; ) {
    score(holdings, holders, last + 1, overlaps);
    if (holders === outer) break;
    // Others hold block `found`, the same hold `last`.
    let found = 0;
    let others = outer;
    while (last - found > 1) {
      const middle = (found + last) >>> 1;
      const at = blocks.holders(blockAt(middle)) & ~RECENT;
      if (at === holders) last = middle;
      else {
        found = middle;
        others = at;
      }
    }
    last = found;
    holders = others;
  }
  settle(overlaps);
}

/** These hold the first `length` blocks; who holds more was scored before. Lengths are counted through all faster tiers. */
function score(holdings: Holdings, holders: number, length: number, overlaps: Overlaps): void {
  const { ranks } = holdings.tenures;
  if ((holders & ALONE) !== 0) {
    scoreRank(ranks[(holders & HOLDER_MASK) >>> TENURE_SHIFT] as number, holders & TIERS_MASK, length, overlaps);
    return;
  }
  if (holders === 0) return;
  const page = holdings.sets.pageOf(holders);
  const from = holdings.sets.membersAt(holders);
  const to = from + holdings.sets.countOf(holders);
  for (let at = from; at < to; at++) {
    const member = page[at] as number;
    scoreRank(ranks[member >>> TENURE_SHIFT] as number, member & TIERS_MASK, length, overlaps);
  }
}

function scoreRank(rank: number, tiers: number, length: number, overlaps: Overlaps): void {
  if (rank < 0) return;
  overlaps.touch(rank);
  if (overlaps.disk[rank] === 0) overlaps.disk[rank] = length;
  const level = (tiers & LEVEL_MASK) === 1 ? 0 : fastest(tiers);
  if (level > 1) return;
  if (overlaps.host[rank] === 0) overlaps.host[rank] = length;
  if (level === 0 && overlaps.device[rank] === 0) overlaps.device[rank] = length;
}

/** From lengths to what each tier adds. */
function settle(overlaps: Overlaps): void {
  const { device, host, disk } = overlaps;
  for (let at = 0; at < overlaps.count; at++) {
    const rank = overlaps.ranks[at] as number;
    const inHost = host[rank] as number;
    disk[rank] = (disk[rank] as number) - inHost;
    host[rank] = inHost - (device[rank] as number);
  }
}
