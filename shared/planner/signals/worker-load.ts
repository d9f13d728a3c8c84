import type { RankLoadRow } from '../../protocol/index.ts';

/** Seconds after which a worker that stays silent, while others speak, no longer counts as serving. */
export const SILENT_S = 20;

/** Load of one worker, or of several together. */
export interface WorkerLoad {
  readonly running: number;
  readonly waiting: number;
  /** Workers at which more requests wait than run. */
  readonly behind: number;
  /** Share of the KV cache in use, from 0 to 1; undefined if no rank has reported the size of its cache. */
  readonly kvUse: number | undefined;
}

/** Adds up the ranks of one worker. */
export function loadOfWorker(ranks: readonly RankLoadRow[]): WorkerLoad {
  const [running, waiting] = [sumOf(ranks, 'running'), sumOf(ranks, 'waiting')];
  return { running, waiting, behind: waiting > running ? 1 : 0, kvUse: kvUseOf(ranks) };
}

/**
 * Adds up loads.
 * @param kvUses shares to take the mean of. @default those of the loads
 */
export function sumLoads(
  loads: readonly WorkerLoad[],
  kvUses: readonly (number | undefined)[] = loads.map(({ kvUse }) => kvUse),
): WorkerLoad {
  const known = kvUses.filter((use) => use !== undefined);
  return {
    running: sumOf(loads, 'running'),
    waiting: sumOf(loads, 'waiting'),
    behind: sumOf(loads, 'behind'),
    kvUse: known.length === 0 ? undefined : known.reduce((total, use) => total + use, 0) / known.length,
  };
}

/** Returns the share of their KV caches that ranks use together. */
export function kvUseOf(ranks: readonly RankLoadRow[]): number | undefined {
  const [used, all] = [sumOf(ranks, 'kv_blocks'), sumOf(ranks, 'kv_blocks_max')];
  return all > 0 ? Math.min(1, used / all) : undefined;
}

function sumOf<K extends string>(rows: readonly Readonly<Record<K, number>>[], key: K): number {
  return rows.reduce((total, row) => total + row[key], 0);
}
