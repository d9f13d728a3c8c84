import type { RouterEventRecord } from './event-record.ts';

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
