import { createHash } from 'node:crypto';
import { hashParts, partsOf } from './known-parts.ts';
import { createXxh3Module, FREE, type Xxh3Module } from './xxh3-module.ts';

/** Properties that separate the blocks of one group of requests from all others. */
export interface HashScope {
  /** Name of the adapter; empty and absent mean the base model. */
  readonly loraName?: string | undefined;
  /** Cache namespace of a tenant. */
  readonly cacheSalt?: string | undefined;
}

export interface BlockHashOptions extends HashScope {
  /** Tokens in a block; 0 gives no hashes. */
  readonly blockSizeTokens: number;
  /** Whether a block also covers the first token after it, as in speculative engines. @default false */
  readonly isEagle?: boolean | undefined;
  /** Hashes of the media objects in a block, by block index. */
  readonly mediaHashes?: ReadonlyMap<number, readonly bigint[]> | undefined;
}

/**
 * Hashes of the complete blocks of a prompt, as pairs of u32 halves, low half first: `[low0, high0, low1, high1, ...]`.
 */
export interface BlockHashes {
  /** Hash of each block's own tokens. */
  readonly local: Uint32Array;
  /** Hash of each block's whole prefix. */
  readonly sequence: Uint32Array;
}

/** Computes the hashes of blocks step by step while a sequence grows. */
export interface BlockHasher {
  /**
   * Writes the pairs of the complete blocks `from .. to` of `tokens` to `tokensHashes` and `hashes`, at the blocks' own
   * indexes. The pairs of block `from - 1` must already be there.
   */
  name(tokens: Uint32Array, from: number, to: number, tokensHashes: Uint32Array, hashes: Uint32Array): void;
}

/** Seed of a block's own hash and of every step along a public chain. */
const PUBLIC_SEED: Seed = { low: 1337, high: 0 };
const INPUT = FREE;
const INPUT_BYTES = 0x20000;
const LOCAL = INPUT + INPUT_BYTES;
const HASHES_MAX = 0x2000;
const SEQUENCE = LOCAL + 8 * HASHES_MAX;
/** Largest block size. Larger blocks do not fit the module's memory; engines use 16 to 256 tokens. */
const BLOCK_SIZE_TOKENS_MAX = 16_384;

/** The module, with views of the memory that callers fill. */
interface Hashing extends Xxh3Module {
  readonly input: Uint32Array;
  /** Pairs of halves of local hashes. */
  readonly local: Uint32Array;
  /** Pairs of halves of sequence hashes. */
  readonly sequence: Uint32Array;
}

let shared: Hashing | undefined;

/** Returns the one module of the process: calls are synchronous and leave no state in it. */
function xxh3(): Hashing {
  shared ??= openHashing();
  return shared;
}

function openHashing(): Hashing {
  const module = createXxh3Module();
  const { buffer } = module.memory;
  return {
    ...module,
    input: new Uint32Array(buffer, INPUT, INPUT_BYTES >> 2),
    local: new Uint32Array(buffer, LOCAL, 2 * HASHES_MAX),
    sequence: new Uint32Array(buffer, SEQUENCE, 2 * HASHES_MAX),
  };
}

/**
 * Returns the local and sequence hashes of every complete block of `tokens`; leaves out the tail. 100,000 tokens take
 * about 0.15 ms, or a fifth of that if the prompt encoder has seen most of them after the same beginning.
 * @throws RangeError when the block size is not between 0 and 16,384
 */
export function hashBlocks(tokens: Uint32Array, options: BlockHashOptions): BlockHashes {
  const { blockSizeTokens, isEagle = false, mediaHashes } = options;
  const windowTokens = isEagle ? blockSizeTokens + 1 : blockSizeTokens;
  const count = completeBlocks(tokens.length, blockSizeTokens, isEagle);
  const local = new Uint32Array(2 * count);
  const sequence = new Uint32Array(2 * count);
  const seed = scopeSeed(options);
  const hash = (from: number): void => {
    hashRange(tokens, { from, to: count, windowTokens, strideTokens: blockSizeTokens, seed }, local);
    for (const [block, media] of mediaHashes ?? []) {
      if (block >= count || media.length === 0) continue;
      const start = block * blockSizeTokens;
      hashBytes(withMedia(tokens.subarray(start, start + windowTokens), media), seed);
      copyWords(xxh3().local, 0, 2, local, 2 * block);
    }
    chainRange(local, from, count, sequence);
  };
  const parts = mediaHashes === undefined ? partsOf(tokens) : undefined; // media hashes depend on places in this prompt
  if (parts === undefined) hash(0);
  else {
    const recipe = `${blockSizeTokens}/${windowTokens}/${seed.low}/${seed.high}`;
    const blocksIn = (length: number): number => completeBlocks(length, blockSizeTokens, isEagle);
    hashParts(parts, { local, sequence }, { recipe, blocksIn, hash });
  }
  return { local, sequence };
}

/** Seed of 64 bits; each half may be signed or unsigned. */
interface Seed {
  readonly low: number;
  readonly high: number;
}

/** Seeds that replace the public ones: for a block's own hash, and for each step along the chain. */
export interface HashSeeds {
  readonly block: bigint;
  readonly chain: bigint;
}

/**
 * Returns the sequence hashes of the complete blocks of `tokens` under the caller's own seeds, which also stand for the
 * scope.
 */
export function seededHashes(
  tokens: Uint32Array,
  { blockSizeTokens, isEagle = false }: Pick<BlockHashOptions, 'blockSizeTokens' | 'isEagle'>,
  seeds: HashSeeds,
): Uint32Array {
  const windowTokens = isEagle ? blockSizeTokens + 1 : blockSizeTokens;
  const count = completeBlocks(tokens.length, blockSizeTokens, isEagle);
  const local = new Uint32Array(2 * count);
  const sequence = new Uint32Array(2 * count);
  hashRange(
    tokens,
    { from: 0, to: count, windowTokens, strideTokens: blockSizeTokens, seed: seedOf(seeds.block) },
    local,
  );
  chainRange(local, 0, count, sequence, seedOf(seeds.chain));
  return sequence;
}

/**
 * Returns the sequence hashes of a chain of local hashes, after `parent` if there is one. Pairs of halves, like all
 * hashes.
 */
export function chainHashes(local: Uint32Array, parent?: readonly [low: number, high: number]): Uint32Array {
  const count = local.length >> 1;
  if (parent === undefined) {
    const sequence = new Uint32Array(local.length);
    chainRange(local, 0, count, sequence);
    return sequence;
  }
  const withParent = new Uint32Array(local.length + 2);
  withParent.set(parent);
  const locals = new Uint32Array(local.length + 2);
  locals.set(local, 2);
  chainRange(locals, 1, count + 1, withParent);
  return withParent.subarray(2);
}

/**
 * Returns the hashes of `chainHashes` without allocating: they lie in the module's memory, valid until the next hash is
 * computed.
 */
export function borrowChain(local: Uint32Array): Uint32Array {
  const count = local.length >> 1;
  if (count === 0 || count > HASHES_MAX) return chainHashes(local);
  const { chain, local: links, sequence } = xxh3();
  copyWords(local, 0, 2 * count, links, 0);
  copyWords(local, 0, 2, sequence, 0);
  chain(LOCAL + 8, count - 1, local[0]!, local[1]!, SEQUENCE + 8, PUBLIC_SEED.low, PUBLIC_SEED.high);
  return sequence.subarray(0, 2 * count);
}

/**
 * Memory in which callers that chain short runs at a high rate write their hashes, without a copy or an object for each
 * run. It belongs to the hashing module: fill it, chain, and read the results in one turn.
 */
export interface HashScratch {
  /** Pairs of halves of the local hashes. */
  readonly local: Int32Array;
  /** Pairs of halves of the results. */
  readonly sequence: Int32Array;
  /** Number of blocks in the longest run. */
  readonly blocksMax: number;
  /** Writes the sequence hashes of the local hashes `from .. to`, at the same places, after the parent's. */
  chain(from: number, to: number, parentLow: number, parentHigh: number): void;
}

export function hashScratch(): HashScratch {
  const { memory, chain } = xxh3();
  return {
    local: new Int32Array(memory.buffer, LOCAL, 2 * HASHES_MAX),
    sequence: new Int32Array(memory.buffer, SEQUENCE, 2 * HASHES_MAX),
    blocksMax: HASHES_MAX,
    chain: (from, to, parentLow, parentHigh) =>
      chain(LOCAL + 8 * from, to - from, parentLow, parentHigh, SEQUENCE + 8 * from, PUBLIC_SEED.low, PUBLIC_SEED.high),
  };
}

/** Creates a hasher for sequences that grow, for mock engines and publishers. */
export function createBlockHasher(options: HashScope & { readonly blockSizeTokens: number }): BlockHasher {
  const { blockSizeTokens } = options;
  const seed = scopeSeed(options);
  return {
    name(tokens, from, to, tokensHashes, hashes) {
      hashRange(tokens, { from, to, windowTokens: blockSizeTokens, strideTokens: blockSizeTokens, seed }, tokensHashes);
      chainRange(tokensHashes, from, to, hashes);
    },
  };
}

/** Returns the XXH3-64 of `bytes`. */
export function xxh3Hash(bytes: Uint8Array, seed: bigint): bigint {
  hashBytes(bytes, seedOf(seed));
  return new DataView(xxh3().memory.buffer).getBigUint64(LOCAL, true);
}

/** Writes the hash as the first of the module's local hashes. */
function hashBytes(bytes: Uint8Array, seed: Seed): void {
  if (bytes.length > INPUT_BYTES) throw new RangeError(`cannot hash ${bytes.length} bytes, more than ${INPUT_BYTES}`);
  xxh3().memory.set(bytes, INPUT);
  hashInput(1, bytes.length, 0, seed);
}

/**
 * Returns the number of a media object from its identifier: the head of a 64-digit hex digest, otherwise the hash of
 * the text. Engines identify embeddings by the embeddings themselves; if these are too long to be hashed here, the
 * number is the head of their SHA-256.
 */
export function mediaHash(identifier: string): bigint | undefined {
  if (identifier === '') return undefined;
  if (Buffer.byteLength(identifier) > INPUT_BYTES)
    return mediaHash(createHash('sha256').update(identifier).digest('hex'));
  if (/^[0-9a-fA-F]{64}$/.test(identifier)) return BigInt(`0x${identifier.slice(0, 16)}`);
  return hashText(identifier, 0n);
}

/** Returns the seed of the local hashes of a scope. */
function scopeSeed({ loraName = '', cacheSalt = '' }: HashScope): Seed {
  if (loraName === '' && cacheSalt === '') return PUBLIC_SEED;
  const adapter = loraName === '' ? 0n : hashText(loraName, 0n);
  const salt = cacheSalt === '' ? 0n : hashText(cacheSalt, 1n);
  return seedOf(BigInt(PUBLIC_SEED.low) + adapter + salt);
}

function hashText(text: string, seed: bigint): bigint {
  return xxh3Hash(new TextEncoder().encode(text), seed);
}

interface HashRange {
  readonly from: number;
  readonly to: number;
  readonly windowTokens: number;
  readonly strideTokens: number;
  readonly seed: Seed;
}

/** Writes the local hashes of blocks `from .. to`, in slices that fit the module's memory. */
function hashRange(tokens: Uint32Array, range: HashRange, local: Uint32Array): void {
  const { strideTokens, windowTokens, seed } = range;
  if (!Number.isInteger(strideTokens) || strideTokens < 0 || strideTokens > BLOCK_SIZE_TOKENS_MAX) {
    throw new RangeError(`block size ${strideTokens} is not between 0 and ${BLOCK_SIZE_TOKENS_MAX}`);
  }
  const { input, local: found } = xxh3();
  const blocksMax = Math.min(HASHES_MAX, Math.floor((INPUT_BYTES - 4 * windowTokens) / (4 * strideTokens)) + 1);
  for (let from = range.from; from < range.to; from += blocksMax) {
    const count = Math.min(blocksMax, range.to - from);
    const start = from * strideTokens;
    // Every supported platform is little-endian, as the hash requires.
    copyWords(tokens, start, (count - 1) * strideTokens + windowTokens, input, 0);
    hashInput(count, 4 * windowTokens, 4 * strideTokens, seed);
    copyWords(found, 0, 2 * count, local, 2 * from);
  }
}

function hashInput(count: number, windowBytes: number, strideBytes: number, { low, high }: Seed): void {
  xxh3().hashBlocks(INPUT, count, windowBytes, strideBytes, low, high, LOCAL);
}

function seedOf(seed: bigint): Seed {
  return { low: Number(BigInt.asIntN(32, seed)), high: Number(BigInt.asIntN(32, seed >> 32n)) };
}

/** Number of words up to which a loop copies faster than a call that makes a view. */
const LOOP_WORDS_MAX = 128;

function copyWords(source: Uint32Array, from: number, count: number, target: Uint32Array, at: number): void {
  if (count > LOOP_WORDS_MAX) target.set(source.subarray(from, from + count), at);
  else for (let word = 0; word < count; word++) target[at + word] = source[from + word] as number;
}

function completeBlocks(tokens: number, blockSizeTokens: number, isEagle: boolean): number {
  if (blockSizeTokens === 0) return 0;
  return Math.max(0, Math.floor((tokens - (isEagle ? 1 : 0)) / blockSizeTokens));
}

/**
 * Writes the sequence hashes of blocks `from .. to` from their local hashes. The very first block has no parent: its
 * sequence hash is its local hash.
 */
function chainRange(local: Uint32Array, from: number, to: number, sequence: Uint32Array, seed = PUBLIC_SEED): void {
  const { chain, local: links, sequence: chained } = xxh3();
  let at = from;
  if (at === 0 && to > 0) {
    sequence[0] = local[0]!;
    sequence[1] = local[1]!;
    at = 1;
  }
  for (; at < to; at += HASHES_MAX) {
    const count = Math.min(HASHES_MAX, to - at);
    copyWords(local, 2 * at, 2 * count, links, 0);
    chain(LOCAL, count, sequence[2 * at - 2]!, sequence[2 * at - 1]!, SEQUENCE, seed.low, seed.high);
    copyWords(chained, 0, 2 * count, sequence, 2 * at);
  }
}

/** Returns the block's tokens, then its media hashes in ascending order. */
function withMedia(tokens: Uint32Array, media: readonly bigint[]): Uint8Array {
  const bytes = new Uint8Array(4 * tokens.length + 8 * media.length);
  bytes.set(new Uint8Array(tokens.buffer, tokens.byteOffset, 4 * tokens.length));
  const view = new DataView(bytes.buffer);
  const sorted = [...media].sort((left, right) => (left < right ? -1 : left > right ? 1 : 0));
  sorted.forEach((hash, index) => {
    view.setBigUint64(4 * tokens.length + 8 * index, hash, true);
  });
  return bytes;
}
