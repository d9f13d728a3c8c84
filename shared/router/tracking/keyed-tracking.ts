import { type BlockHashes, type HashSeeds, seededHashes } from '../../tokens/index.ts';
import type { RouteRequest, WorkerPool } from '../types.ts';
import { blake3Keyed } from './blake3.ts';

/** Names the blocks of running requests, by which a router and its peers tell which of them share a prefix. */
export interface TrackingHash {
  /** Pairs of u32 halves, one for each complete block of the prompt; `hashes` are its public ones. */
  activeHashes(request: RouteRequest, pool: WorkerPool, hashes: BlockHashes): Uint32Array;
}

export interface TrackingKey {
  /** 32 bytes. */
  readonly key: Uint8Array;
  /** Epoch of the key: another one gives other names. */
  readonly keyId: string;
}

const DOMAIN = 'dynamo.router.tracking-hash/keyed-xxh3-v1\0';
/** Of models that are not split up; ours are not. */
const ROUTING_GROUP = 'default';
/** A hash is two words, which are hashed as if they were tokens. */
const WORDS_PER_HASH = 2;

/**
 * Names that depend on a key, `keyed-xxh3-v1`: XXH3 of each block and along the chain, under two seeds that the keyed BLAKE3 of
 * the scope (model, block size, cache salt, adapter) gives, bit for bit as Dynamo 1.6.1 does. Without the key nobody can tell
 * by the names what a prompt says; it is no protection against who can choose prompts and watch the names. Where another process
 * has hashed the prompt and its tokens are not here, its public hashes are named in their place.
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

/** What sets the names of one group of requests apart from all others. */
interface TrackingScope {
  readonly model: string;
  readonly routingGroup?: string;
  readonly blockSizeTokens: number;
  readonly cacheSalt: string | undefined;
  readonly loraName: string | undefined;
  readonly isEagle: boolean;
}

/** Seeds of a scope. Each part carries its number and its length, so that no two scopes read the same. */
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

/** An empty text is an absent one. */
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
