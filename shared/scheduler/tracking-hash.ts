import type { RouteRequest, WorkerPool } from '../router/index.ts';
import { type BlockHashes, type HashSeeds, seededHashes } from '../tokens/index.ts';

/** Names the blocks of running requests. By these names a router and its peers see which requests share a prefix. */
export interface TrackingHash {
  /** Returns pairs of u32 halves, one for each complete block of the prompt. `hashes` are its public hashes. */
  activeHashes(request: RouteRequest, pool: WorkerPool, hashes: BlockHashes): Uint32Array;
}

export interface TrackingKey {
  /** Secret of 32 bytes. */
  readonly key: Uint8Array;
  /** Epoch of the key. Another epoch gives other names. */
  readonly keyId: string;
}

const DOMAIN = 'dynamo.router.tracking-hash/keyed-xxh3-v1\0';
/** Routing group of models that are not split up. Stator does not split models. */
const ROUTING_GROUP = 'default';
/** Words of a hash. They are hashed as if they were tokens. */
const WORDS_PER_HASH = 2;

/**
 * Creates names that depend on a key, `keyed-xxh3-v1`. They are XXH3 of each block and along the chain, under two seeds
 * that the keyed BLAKE3 of the scope (model, block size, cache salt, adapter) gives, bit for bit as in Dynamo 1.6.1.
 * Without the key the names do not reveal what a prompt says. They do not protect against a party that can choose
 * prompts and watch the names. If another process has hashed the prompt and its tokens are not here, the names are
 * computed from its public hashes.
 */
export function createKeyedTracking({ key, keyId }: TrackingKey): TrackingHash {
  return {
    activeHashes: ({ tokenIds, routing }, pool, { sequence }) => {
      const { blockSizeTokens, isEagle = false } = pool;
      const seeds = seedsOf(key, keyId, {
        model: pool.model ?? pool.key,
        blockSizeTokens,
        cacheSalt: routing.cache_salt,
        loraName: routing.lora_name,
        isEagle,
      });
      return tokenIds === undefined
        ? seededHashes(sequence, { blockSizeTokens: WORDS_PER_HASH }, seeds)
        : seededHashes(tokenIds, { blockSizeTokens, isEagle }, seeds);
    },
  };
}

/** Values that separate the names of one group of requests from all others. */
interface TrackingScope {
  readonly model: string;
  readonly routingGroup?: string;
  readonly blockSizeTokens: number;
  readonly cacheSalt: string | undefined;
  readonly loraName: string | undefined;
  readonly isEagle: boolean;
}

/**
 * Returns the seeds of a scope. Each part carries its number and its length, so that no two scopes give the same bytes.
 */
export function seedsOf(key: Uint8Array, keyId: string, scope: TrackingScope): HashSeeds {
  const { model, routingGroup = ROUTING_GROUP, blockSizeTokens, cacheSalt, loraName, isEagle } = scope;
  const blockSize = Buffer.alloc(4);
  blockSize.writeUInt32LE(blockSizeTokens);
  const input = Buffer.concat([
    Buffer.from(DOMAIN),
    framed(1, Buffer.from(keyId)),
    framed(2, Buffer.from(model)),
    framed(3, Buffer.from(routingGroup)),
    framed(4, blockSize),
    optional(5, cacheSalt),
    optional(6, loraName),
    framed(7, Buffer.from([isEagle ? 1 : 0])),
  ]);
  const digest = Buffer.from(blake3Keyed(key, input));
  return { block: digest.readBigUInt64LE(0), chain: digest.readBigUInt64LE(8) };
}

function framed(tag: number, value: Buffer): Buffer {
  return Buffer.concat([Buffer.from([tag]), lengthOf(value), value]);
}

/** Encodes a part of the scope. An empty text counts as absent. */
function optional(tag: number, text: string | undefined): Buffer {
  if (text === undefined || text === '') return Buffer.from([tag, 0]);
  const value = Buffer.from(text);
  return Buffer.concat([Buffer.from([tag, 1]), lengthOf(value), value]);
}

function lengthOf(value: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(value.length));
  return length;
}

/**
 * Initial state of BLAKE3 in keyed mode, here for the few hundred bytes that name a scope. Node's crypto does not have
 * it.
 *
 *     input    chunks of 1024 bytes, each 16 blocks of 64: the value of a chunk is chained through its blocks
 *     tree     chunk 0   chunk 1   chunk 2          the left side is the largest whole power of two
 *                  \       /          |
 *                   parent            |
 *                       \            /
 *                          parent  <- root: its value is the digest
 */
const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19] as const;
/** New place of each word of a block between two rounds. */
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8] as const;
/** Columns, then diagonals, of the state of four by four words. */
const MIXED = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;
export const KEY_BYTES = 32;
const ROUNDS = 7;
const BLOCK_BYTES = 64;
const CHUNK_BYTES = 1024;
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;
const KEYED = 16;

/** Input of one compression. How it ends depends on whether the node is the root. */
interface Node {
  readonly value: Uint32Array;
  readonly words: Uint32Array;
  readonly chunk: number;
  readonly bytes: number;
  readonly flags: number;
}

/**
 * Returns the first 32 bytes of BLAKE3's keyed hash of `input`.
 * @param key 32 bytes
 */
export function blake3Keyed(key: Uint8Array, input: Uint8Array): Uint8Array {
  if (key.length !== KEY_BYTES) throw new RangeError(`a key of BLAKE3 has ${KEY_BYTES} bytes, not ${key.length}`);
  const root = treeOf(wordsOf(key), input, 0);
  const digest = compress({ ...root, flags: root.flags | ROOT });
  return new Uint8Array(digest.buffer); // every supported platform is little-endian
}

function treeOf(key: Uint32Array, input: Uint8Array, firstChunk: number): Node {
  if (input.length <= CHUNK_BYTES) return chunkOf(key, input, firstChunk);
  const chunks = Math.ceil(input.length / CHUNK_BYTES);
  const leftChunks = 2 ** (31 - Math.clz32(chunks - 1));
  const split = leftChunks * CHUNK_BYTES;
  const words = new Uint32Array(16);
  words.set(compress(treeOf(key, input.subarray(0, split), firstChunk)));
  words.set(compress(treeOf(key, input.subarray(split), firstChunk + leftChunks)), 8);
  return { value: key, words, chunk: 0, bytes: BLOCK_BYTES, flags: PARENT | KEYED };
}

function chunkOf(key: Uint32Array, input: Uint8Array, chunk: number): Node {
  let value = key;
  let flags = KEYED | CHUNK_START;
  let at = 0;
  for (; input.length - at > BLOCK_BYTES; at += BLOCK_BYTES) {
    const words = wordsOf(input.subarray(at, at + BLOCK_BYTES));
    value = compress({ value, words, chunk, bytes: BLOCK_BYTES, flags });
    flags = KEYED;
  }
  const last = input.subarray(at);
  return { value, words: wordsOf(last), chunk, bytes: last.length, flags: flags | CHUNK_END };
}

/** Returns little-endian words, filled with zeros up to those of a block. A key has eight. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  const padded = new Uint8Array(BLOCK_BYTES);
  padded.set(bytes);
  return new Uint32Array(padded.buffer);
}

function compress({ value, words, chunk, bytes, flags }: Node): Uint32Array<ArrayBuffer> {
  const state = new Uint32Array(16);
  state.set(value.subarray(0, 8));
  state.set(IV.slice(0, 4), 8);
  state.set([chunk, 0, bytes, flags], 12); // inputs here are far below 4 TiB
  let block = words;
  for (let round = 0; round < ROUNDS; round++) {
    MIXED.forEach((corners, at) => {
      mix(state, corners, block[2 * at] as number, block[2 * at + 1] as number);
    });
    block = Uint32Array.from(PERMUTATION, (from) => block[from] as number);
  }
  const result = new Uint32Array(8);
  for (let at = 0; at < 8; at++) result[at] = (state[at] as number) ^ (state[at + 8] as number);
  return result;
}

type Corners = readonly [a: number, b: number, c: number, d: number];

function mix(state: Uint32Array, [a, b, c, d]: Corners, x: number, y: number): void {
  state[a] = (state[a] as number) + (state[b] as number) + x;
  state[d] = rotated((state[d] as number) ^ (state[a] as number), 16);
  state[c] = (state[c] as number) + (state[d] as number);
  state[b] = rotated((state[b] as number) ^ (state[c] as number), 12);
  state[a] = (state[a] as number) + (state[b] as number) + y;
  state[d] = rotated((state[d] as number) ^ (state[a] as number), 8);
  state[c] = (state[c] as number) + (state[d] as number);
  state[b] = rotated((state[b] as number) ^ (state[c] as number), 7);
}

function rotated(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
