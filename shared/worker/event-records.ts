import type { EngineLoad, KvEvent } from '../engines/index.ts';

/**
 * One event on `kv-events` (router.md, section 4.1) in this product's own form: 64-bit values as text or bytes (rulings 26
 * and 41), and the blocks of a store as two runs of bytes, 8 a block, little-endian, instead of a list of objects. A
 * message is a list of these. Needs the msgpack codec.
 */
export interface RouterEventRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly storage_tier: 'device';
  readonly event: {
    /** Counts the events of one rank, from 1, without a gap. */
    readonly event_id: number;
    readonly dp_rank: number;
    readonly data:
      | {
          readonly stored: {
            readonly parent_hash: Uint8Array | null;
            readonly block_hashes: Uint8Array;
            readonly tokens_hashes: Uint8Array;
          };
        }
      | { readonly removed: { readonly block_hashes: Uint8Array } }
      | 'cleared';
  };
}

/** One message on `kv_metrics` (router.md, section 5.6): the worker's own view of one rank. */
export interface ActiveLoadRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly kv_used_blocks: number;
  readonly active_prefill_tokens: number;
}

export function toRouterEvent(workerId: string, eventId: number, event: KvEvent): RouterEventRecord {
  return {
    worker_id: workerId,
    storage_tier: 'device',
    event: { event_id: eventId, dp_rank: event.dpRank, data: dataOf(event) },
  };
}

export function toActiveLoad(workerId: string, load: EngineLoad): ActiveLoadRecord {
  return {
    worker_id: workerId,
    dp_rank: load.dpRank,
    kv_used_blocks: load.usedKvBlocks,
    active_prefill_tokens: load.activePrefillTokens,
  };
}

/** An instance id (hex) as the decimal text of event records. */
export function decimalId(instanceId: string): string {
  return BigInt(`0x${instanceId}`).toString();
}

function dataOf(event: KvEvent): RouterEventRecord['event']['data'] {
  switch (event.kind) {
    case 'stored':
      return {
        stored: {
          parent_hash: event.parentHash === undefined ? null : bytesOf(Uint32Array.from(event.parentHash)),
          block_hashes: bytesOf(event.blockHashes),
          tokens_hashes: bytesOf(event.tokensHashes),
        },
      };
    case 'removed':
      return { removed: { block_hashes: bytesOf(event.blockHashes) } };
    case 'cleared':
      return 'cleared';
  }
}

/** Pairs of u32 halves, low half first, are little-endian u64 in memory on every machine that Node has builds for. */
function bytesOf(pairs: Uint32Array): Uint8Array {
  return Buffer.from(pairs.buffer, pairs.byteOffset, pairs.byteLength);
}
