import { u64OfHex } from '../records/index.ts';
import type { PotentialLoad } from '../router/scheduler/index.ts';
import { ServiceError } from './service-error.ts';

/** The workers of one model and routing group. */
export interface Pool {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
}

/** Pairs of model and group of one service. */
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

  /** @throws ServiceError 409 where the pool has another block size */
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

/** `/dump` of the indexes of all pools, as pieces of JSON text. */
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

/** A row of `/potential_loads`. */
export function potentialLoadJson(row: PotentialLoad): unknown {
  return {
    worker_id: u64OfHex(row.workerId),
    dp_rank: row.dpRank,
    potential_prefill_tokens: row.potentialPrefillTokens,
    potential_decode_blocks: row.potentialDecodeBlocks,
    active_requests: row.activeRequests,
  };
}
