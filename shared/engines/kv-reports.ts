import { hashBlocks } from '../tokens/index.ts';
import type { KvEvent, KvTier } from './types.ts';

/** Tier and rank of blocks. */
interface KvPlace {
  /** @default 0 */
  readonly dpRank?: number;
  /** @default 'device' */
  readonly tier?: KvTier;
}

/**
 * Blocks that a cache holds from now on.
 *
 * @example
 * const blocks: StoredBlocks = { tokenIds: [1, 2, 3, 4], loraName: 'my-adapter' };
 */
export interface StoredBlocks extends KvPlace {
  /**
   * Tokens of whole blocks; an incomplete block at the end is left out. Without `parentHash` they begin with the
   * prompt's first token.
   */
  readonly tokenIds: ArrayLike<number>;
  /**
   * Names that the cache gives to the blocks, u64. @default hashes of each block's whole prefix; not with `parentHash`
   */
  readonly blockHashes?: readonly bigint[];
  /** Name of the block before them. */
  readonly parentHash?: bigint;
  /** `routing.lora_name` and `routing.cache_salt` of the request; blocks differ between adapters and tenants. */
  readonly loraName?: string | undefined;
  readonly cacheSalt?: string | undefined;
}

/**
 * Blocks that a cache has given up.
 *
 * @example
 * const blocks: RemovedBlocks = { blockHashes: [0x1234n], tier: 'device' };
 */
export interface RemovedBlocks extends KvPlace {
  readonly blockHashes: readonly bigint[];
}

/**
 * Reports of a model written in code on its KV cache, so that routers send a prompt to a worker that has it cached.
 *
 * @example
 * function keep(cache: KvCacheReports, tokenIds: readonly number[]): () => void {
 *   const blockHashes = cache.stored({ tokenIds });
 *   return () => cache.removed({ blockHashes });
 * }
 */
export interface KvCacheReports {
  /**
   * Reports blocks that were stored. Returns their names, one for each block.
   * @throws TypeError or RangeError that names the field, its value, and what is allowed
   */
  stored(blocks: StoredBlocks): readonly bigint[];
  /** Reports blocks that were dropped. @throws as `stored` does */
  removed(blocks: RemovedBlocks): void;
  /** Reports that the cache is empty, on every rank. */
  cleared(): void;
}

export interface KvReportsOptions {
  readonly blockSizeTokens: number;
  readonly dataParallelSize: number;
}

/** Number of events that are kept until the worker listens: a model may warm its cache while it loads. */
const EARLY_EVENTS_MAX = 100_000;
const U64_MAX = 2n ** 64n - 1n;
const TIERS: readonly KvTier[] = ['device', 'host_pinned', 'disk', 'external'];

/** Converts a model's reports about its cache to the events of an engine. */
export class KvEventReports implements KvCacheReports {
  readonly #options: KvReportsOptions;
  #early: KvEvent[] = [];
  readonly #listeners: ((events: readonly KvEvent[]) => void)[] = [];

  constructor(options: KvReportsOptions) {
    this.#options = options;
  }

  /** Passes on earlier reports, and every event from now on. */
  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#listeners.push(listener);
    const early = this.#early;
    this.#early = [];
    if (early.length > 0) listener(early);
  }

  stored(blocks: StoredBlocks): readonly bigint[] {
    const { dpRank, tier } = this.#place(blocks);
    const { blockSizeTokens } = this.#options;
    const { parentHash, blockHashes, loraName, cacheSalt } = blocks;
    const { local, sequence } = hashBlocks(idsOf(blocks.tokenIds), { blockSizeTokens, loraName, cacheSalt });
    const count = local.length / 2;
    if (blockHashes === undefined && parentHash !== undefined) {
      throw new TypeError('blockHashes is missing: blocks behind a parentHash need names of their own');
    }
    if (blockHashes !== undefined && blockHashes.length !== count) {
      throw new RangeError(
        `blockHashes has ${blockHashes.length} entries: expected ${count}, one for each whole block of ${blockSizeTokens} tokens`,
      );
    }
    const names = blockHashes === undefined ? sequence : pairsOf('blockHashes', blockHashes);
    if (count > 0) {
      const parent = parentHash === undefined ? undefined : pairsOf('parentHash', [parentHash]);
      this.#report({
        kind: 'stored',
        dpRank,
        parentHash: parent && [parent[0]!, parent[1]!],
        blockHashes: names,
        tokensHashes: local,
        tier,
      });
    }
    return blockHashes ?? wholeOf(names);
  }

  removed(blocks: RemovedBlocks): void {
    const { dpRank, tier } = this.#place(blocks);
    const names = pairsOf('blockHashes', blocks.blockHashes);
    if (names.length > 0) this.#report({ kind: 'removed', dpRank, blockHashes: names, tier });
  }

  cleared(): void {
    for (let dpRank = 0; dpRank < this.#options.dataParallelSize; dpRank++) this.#report({ kind: 'cleared', dpRank });
  }

  #place({ dpRank = 0, tier = 'device' }: KvPlace): Required<KvPlace> {
    const { dataParallelSize: ranks } = this.#options;
    if (!Number.isInteger(dpRank) || dpRank < 0 || dpRank >= ranks) {
      throw new RangeError(`dpRank ${dpRank}: expected a whole number below ${ranks} (runtime.dataParallelSize)`);
    }
    if (!TIERS.includes(tier)) throw new TypeError(`tier ${JSON.stringify(tier)}: expected ${TIERS.join(', ')}`);
    return { dpRank, tier };
  }

  #report(event: KvEvent): void {
    if (this.#listeners.length > 0) for (const listener of this.#listeners) listener([event]);
    else if (this.#early.length < EARLY_EVENTS_MAX) this.#early.push(event);
    else throw new RangeError(`more than ${EARLY_EVENTS_MAX} cache events before the worker is registered`);
  }
}

function idsOf(tokenIds: ArrayLike<number>): Uint32Array {
  if (tokenIds instanceof Uint32Array) return tokenIds;
  const ids = new Uint32Array(tokenIds.length);
  for (let at = 0; at < ids.length; at++) {
    const id = tokenIds[at];
    if (!Number.isInteger(id) || id! < 0 || id! > 0xffff_ffff) {
      throw new TypeError(`tokenIds[${at}] ${JSON.stringify(id) ?? String(id)}: expected a token id`);
    }
    ids[at] = id!;
  }
  return ids;
}

/** Converts hashes to pairs of u32 halves, low half first. */
function pairsOf(field: string, hashes: readonly bigint[]): Uint32Array {
  const pairs = new Uint32Array(2 * hashes.length);
  for (const [at, hash] of hashes.entries()) {
    if (typeof hash !== 'bigint' || hash < 0n || hash > U64_MAX) {
      throw new TypeError(`${field} ${String(hash)}: expected a bigint from 0 to 2^64-1`);
    }
    pairs[2 * at] = Number(hash & 0xffff_ffffn);
    pairs[2 * at + 1] = Number(hash >> 32n);
  }
  return pairs;
}

function wholeOf(pairs: Uint32Array): readonly bigint[] {
  return Array.from(
    { length: pairs.length / 2 },
    (_, at) => (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!),
  );
}
