import { loadFor } from './load.ts';
import type { KserveSide, SideName } from './sides.ts';

/** How the sides of a row are measured beside each other. */
export interface BlockLoad {
  /** Requests under way. */
  readonly atOnce: number;
  /** Requests of one block. */
  readonly count: number;
  /** Blocks of each side. */
  readonly blocks: number;
  /** Blocks of each side before any counts: code is compiled meanwhile, and heaps get their size. */
  readonly warmUpBlocks: number;
  /** A block also ends after this time. */
  readonly secondsMax: number;
}

/**
 * Microseconds of CPU for each unit, a figure a block, blocks of all sides at about the same time at the same place.
 */
export type Blocks = ReadonlyMap<SideName, readonly number[]>;

/**
 * CPU of the servers for what they are asked, in short blocks in turn, so that whatever else the machine does hits all
 * of them alike. The order changes from round to round.
 */
export async function alternate(
  sides: readonly KserveSide[],
  ask: (side: KserveSide) => Promise<number>,
  { atOnce, count, blocks, warmUpBlocks, secondsMax }: BlockLoad,
): Promise<Blocks> {
  const figures = new Map<SideName, number[]>(sides.map(({ name }) => [name, []]));
  for (let round = -warmUpBlocks; round < blocks; round++) {
    for (const side of round % 2 === 0 ? sides : [...sides].reverse()) {
      const load = { atOnce, count, seconds: secondsMax, ask: () => ask(side) };
      const { cpuMs, units } = await loadFor(side.pid, load);
      if (round >= 0) figures.get(side.name)?.push((cpuMs * 1000) / units);
    }
  }
  return figures;
}

/** Median of each side. */
export function mediansOf(blocks: Blocks): Partial<Record<SideName, number>> {
  return Object.fromEntries([...blocks].map(([name, figures]) => [name, median(figures)]));
}

/** Median of the time of `side` divided by that of `other` in the same round; undefined if one was not measured. */
export function ratioOf(blocks: Blocks, side: SideName, other: SideName): number | undefined {
  const [mine, theirs] = [blocks.get(side), blocks.get(other)];
  if (mine === undefined || theirs === undefined) return undefined;
  return median(mine.map((figure, round) => figure / theirs[round]!)); // as many of each
}

export function median(figures: readonly number[]): number {
  const sorted = [...figures].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}
