import type { Overlaps, RankTable } from '../block-index/index.ts';
import { u64OfHex } from '../records/index.ts';
import type { PotentialLoad } from '../scheduler/index.ts';
import { ServiceError } from './body-fields.ts';

/** The workers of one model and routing group. */
export interface Pool {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
}

/** Maximum number of pairs of model and group of one service. */
const POOLS_MAX = 1024;

/** The pools of a service, by model and routing group. */
export class Pools<P extends Pool> implements Iterable<P> {
  readonly #pools = new Map<string, P>();

  get size(): number {
    return this.#pools.size;
  }

  [Symbol.iterator](): Iterator<P> {
    return this.#pools.values();
  }

  find(model: string, group: string): P | undefined {
    return this.#pools.get(poolKey(model, group));
  }

  /** @throws ServiceError 409 if the pool has another block size */
  findWith(model: string, group: string, blockSizeTokens: number): P | undefined {
    const known = this.find(model, group);
    if (known === undefined || known.blockSizeTokens === blockSizeTokens) return known;
    const place = `model ${model} in routing group ${group}`;
    throw new ServiceError(409, `${place} has block size ${known.blockSizeTokens}, not ${blockSizeTokens}`);
  }

  /** @throws ServiceError 503 at the bound */
  requireRoom(): void {
    if (this.#pools.size >= POOLS_MAX) throw new ServiceError(503, `more than ${POOLS_MAX} models and groups`);
  }

  add(pool: P): P {
    this.#pools.set(poolKey(pool.model, pool.group), pool);
    return pool;
  }

  delete({ model, group }: Pool): void {
    this.#pools.delete(poolKey(model, group));
  }

  clear(): void {
    this.#pools.clear();
  }
}

export function poolKey(model: string, group: string): string {
  return JSON.stringify([model, group]);
}

/** Yields the reply of `/dump` for the indexes of all pools, as pieces of JSON text. */
export function* dumpPools(pools: Iterable<Pool & { dump(): Iterable<string> }>): Generator<string, void, void> {
  let before = '{';
  for (const pool of pools) {
    const name = JSON.stringify(`${pool.model}:${pool.group}`);
    yield `${before}${name}:{"block_size":${pool.blockSizeTokens},"events":[`;
    yield* pool.dump();
    yield ']}';
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

/** Returns a row of `/potential_loads`. */
export function potentialLoadJson(row: PotentialLoad): unknown {
  return {
    worker_id: u64OfHex(row.workerId),
    dp_rank: row.dpRank,
    potential_prefill_tokens: row.potentialPrefillTokens,
    potential_decode_blocks: row.potentialDecodeBlocks,
    active_requests: row.activeRequests,
  };
}

/** A rank of a pool: its number, its worker and its data-parallel rank. */
export interface ScoredRank {
  readonly rank: number;
  /** In hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

interface OverlapScoresOptions {
  readonly blockSizeTokens: number;
  /** Number of complete blocks of the prompt. */
  readonly blocks: number;
  /** Returns a worker id in the form of the wire. */
  readonly showId: (workerId: string) => unknown;
}

/** Returns how many blocks of a prompt every rank has, including ranks that have none. */
export function overlapScores(
  overlaps: Overlaps,
  ranks: readonly ScoredRank[],
  { blockSizeTokens, blocks, showId }: OverlapScoresOptions,
): unknown {
  const workers = ranks.map(({ rank, workerId, dpRank }) => {
    const device = overlaps.device[rank] ?? 0;
    const host = overlaps.host[rank] ?? 0;
    const disk = overlaps.disk[rank] ?? 0;
    return {
      worker_id: showId(workerId),
      dp_rank: dpRank,
      device_blocks: device,
      host_pinned_blocks: device + host,
      disk_blocks: device + host + disk,
      host_pinned_extension_blocks: host,
      disk_extension_blocks: disk,
      shared_beyond_device_blocks: null,
    };
  });
  const sharedCache = { enabled: false, total_hit_blocks: 0, ranges: [], error: null };
  return { block_size: blockSizeTokens, num_blocks: blocks, workers, shared_cache: sharedCache };
}

/** How many tokens of a prompt one worker has; each tier includes the faster ones. */
export interface WorkerOverlap {
  /** In any tier, on the rank that has the most. */
  longest_matched: number;
  gpu: number;
  /** Device tokens by rank. */
  readonly dp: Record<string, number>;
  cpu: number;
  disk: number;
}

/** Returns overlaps by worker id in decimal. Workers that have no blocks are absent. */
export function overlapsByWorker(
  overlaps: Overlaps,
  ranks: RankTable,
  blockSizeTokens: number,
): Readonly<Record<string, WorkerOverlap>> {
  const found: Record<string, WorkerOverlap> = {};
  for (const rank of overlaps.ranks.subarray(0, overlaps.count)) {
    const workerId = ranks.workerIdOf(rank);
    if (workerId === undefined) continue;
    const name = u64OfHex(workerId).toString();
    found[name] = merge(found[name], overlaps, rank, `${ranks.dpRankOf(rank)}`, blockSizeTokens);
  }
  return found;
}

function merge(
  worker: WorkerOverlap | undefined,
  overlaps: Overlaps,
  rank: number,
  dpRank: string,
  blockSizeTokens: number,
): WorkerOverlap {
  const into = worker ?? { longest_matched: 0, gpu: 0, dp: {}, cpu: 0, disk: 0 };
  const device = overlaps.device[rank]!;
  const host = device + overlaps.host[rank]!;
  const disk = host + overlaps.disk[rank]!;
  if (device > 0) into.dp[dpRank] = device * blockSizeTokens;
  into.gpu = Math.max(into.gpu, device * blockSizeTokens);
  into.cpu = Math.max(into.cpu, host * blockSizeTokens);
  into.disk = Math.max(into.disk, disk * blockSizeTokens);
  into.longest_matched = into.disk;
  return into;
}
