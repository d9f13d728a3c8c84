import type { StorageTier } from '../block-index/types.ts';

/** Topic of cache changes, and of load reports. */
export const KV_EVENTS_TOPIC = 'kv-events';
export const LOAD_TOPIC = 'kv_metrics';
/** Events in one message on `kv-events`: what comes at once is read in one turn of the event loop. */
export const EVENTS_PER_MESSAGE_MAX = 4096;

/** Blocks of a store in this product's own form: 8 bytes a block, little-endian. Needs the msgpack codec. */
export interface CompactStored {
  readonly parent_hash: Uint8Array | null;
  readonly block_hashes: Uint8Array;
  readonly tokens_hashes: Uint8Array;
}

/** Blocks of a store in Dynamo's form; 64-bit values as decimal text. Any codec. */
export interface PlainStored {
  readonly parent_hash: string | null;
  readonly start_position: null;
  readonly blocks: readonly {
    readonly block_hash: string;
    readonly tokens_hash: string;
    readonly mm_extra_info: null;
  }[];
}

/**
 * One event on `kv-events` as this product writes it. A message is a list of them.
 * `decodeRouterEvents` reads both forms, and Dynamo's own with its 64-bit numbers.
 */
export interface RouterEventRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly storage_tier: StorageTier;
  readonly event: {
    /** Counts the events of one rank, from 1, without a gap. */
    readonly event_id: number;
    readonly dp_rank: number;
    readonly data:
      | { readonly stored: CompactStored | PlainStored }
      | { readonly removed: { readonly block_hashes: Uint8Array | readonly string[] } }
      | 'cleared';
  };
}

/** One message on `kv_metrics`: the worker's own view of one rank. */
export interface ActiveLoadRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly kv_used_blocks: number;
  readonly active_prefill_tokens: number;
  /** Id of the last event that the rank published, so that a router notices the loss of the last ones. */
  readonly last_event_id?: number;
  /** Ids of requests with a reservation that have come since the worker's last report, and of those that have gone. */
  readonly arrived_requests?: readonly string[];
  readonly left_requests?: readonly string[];
}

/** Header of a request for which a router in another process holds a place: the worker reports its id. */
export const RESERVATION_HEADER = 'x-stator-reservation';

/** Endpoint where a router asks for the events or the blocks of one rank. */
export function recoveryEndpoint(dpRank: number): string {
  return `${PREFIX}${dpRank}`;
}

const PREFIX = 'worker_kv_indexer_query_dp';

/** The rank whose recovery endpoint this is; undefined for other endpoints. */
export function rankOfRecoveryEndpoint(endpoint: string): number | undefined {
  if (!endpoint.startsWith(PREFIX)) return undefined;
  const rank = endpoint.slice(PREFIX.length);
  return /^\d{1,9}$/.test(rank) ? Number(rank) : undefined;
}

/** What a router asks; both ids are inclusive. */
export interface RecoveryRequest {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly dp_rank: number;
  /** Absent: everything that the rank holds. */
  readonly start_event_id?: number;
  /** Absent: up to the newest. */
  readonly end_event_id?: number;
  /** The caller reads compact events, so the codec between the two carries bytes. @default false */
  readonly compact?: boolean;
}

/**
 * What a worker answers. Events come in several answers of the same kind, one after the other; the end of the stream says
 * that they are complete.
 */
export type RecoveryResponse = RecoveryVariant & {
  /** Hex. Events are counted anew by every publisher. */
  readonly publisher_id?: string;
};

type RecoveryVariant =
  | { readonly Events: { readonly events: readonly RouterEventRecord[]; readonly last_event_id: number } }
  | { readonly TreeDump: { readonly events: readonly RouterEventRecord[]; readonly last_event_id: number } }
  | {
      readonly TooNew: {
        readonly requested_start: number;
        readonly requested_end: number | null;
        readonly newest_available: number;
      };
    }
  | { readonly InvalidRange: { readonly start_id: number; readonly end_id: number } }
  | { readonly Error: string };
