import type { EngineLoad, KvEvent } from '../../engines/index.ts';
import type { ActiveLoadRecord, RouterEventRecord } from '../../router/feed/index.ts';
import type { RequestsReport } from './reserved-requests.ts';

type EventData = RouterEventRecord['event']['data'];

/** How events are written: in bytes where the codec carries them, else as text. */
export type EventForm = 'compact' | 'plain';

/** `workerId` in decimal. */
export function toRouterEvent(
  workerId: string,
  eventId: number,
  event: KvEvent,
  form: EventForm = 'compact',
): RouterEventRecord {
  return {
    worker_id: workerId,
    storage_tier: event.kind === 'cleared' ? 'device' : (event.tier ?? 'device'),
    event: { event_id: eventId, dp_rank: event.dpRank, data: form === 'compact' ? compactOf(event) : plainOf(event) },
  };
}

export function toActiveLoad(
  workerId: string,
  load: EngineLoad,
  lastEventId?: number,
  requests?: RequestsReport,
): ActiveLoadRecord {
  return {
    worker_id: workerId,
    dp_rank: load.dpRank,
    kv_used_blocks: load.usedKvBlocks,
    active_prefill_tokens: load.activePrefillTokens,
    ...(lastEventId === undefined ? {} : { last_event_id: lastEventId }),
    ...(requests === undefined ? {} : { arrived_requests: requests.arrived, left_requests: requests.left }),
  };
}

function compactOf(event: KvEvent): EventData {
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

function plainOf(event: KvEvent): EventData {
  switch (event.kind) {
    case 'stored': {
      const names = decimals(event.blockHashes);
      const contents = decimals(event.tokensHashes);
      return {
        stored: {
          parent_hash: event.parentHash === undefined ? null : decimalOf(event.parentHash[0], event.parentHash[1]),
          start_position: null,
          blocks: names.map((block_hash, at) => ({ block_hash, tokens_hash: contents[at]!, mm_extra_info: null })),
        },
      };
    }
    case 'removed':
      return { removed: { block_hashes: decimals(event.blockHashes) } };
    case 'cleared':
      return 'cleared';
  }
}

/** Pairs of u32 halves, low half first, are little-endian u64 in memory on every machine that Node has builds for. */
function bytesOf(pairs: Uint32Array): Uint8Array {
  return Buffer.from(pairs.buffer, pairs.byteOffset, pairs.byteLength);
}

function decimals(pairs: Uint32Array): string[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) => decimalOf(pairs[2 * at]!, pairs[2 * at + 1]!));
}

function decimalOf(low: number, high: number): string {
  return ((BigInt(high) << 32n) | BigInt(low)).toString();
}
