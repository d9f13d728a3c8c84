import type { EngineLoad, KvEvent } from '../../engines/index.ts';
import type { ActiveLoadRecord, RouterEventRecord } from '../../worker-events/index.ts';

type EventData = RouterEventRecord['event']['data'];

/** Converts an event of the cache to its record. @param workerId in decimal */
export function toRouterEvent(workerId: string, eventId: number, event: KvEvent): RouterEventRecord {
  return {
    worker_id: workerId,
    storage_tier: event.kind === 'cleared' ? 'device' : (event.tier ?? 'device'),
    event: { event_id: eventId, dp_rank: event.dpRank, data: dataOf(event) },
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

function dataOf(event: KvEvent): EventData {
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

/**
 * Returns the bytes of pairs of u32 halves, low half first. In memory they are little-endian u64 on every machine that
 * Node has builds for.
 */
function bytesOf(pairs: Uint32Array): Uint8Array {
  return Buffer.from(pairs.buffer, pairs.byteOffset, pairs.byteLength);
}

/** Most ids in one report. A worker accepts no more requests in a second. */
const IDS_MAX = 65_536;

/** Requests that have begun and ended since the last report. */
interface RequestsReport {
  readonly arrived: readonly string[];
  readonly left: readonly string[];
}

/**
 * Requests for which a router in another process holds a place, as they begin and end. The worker reports them, so that
 * the router keeps the place exactly as long as they are here. If too many ids occur, the limits of the router free the
 * rest.
 */
export class ReservedRequests {
  #arrived: string[] = [];
  #left: string[] = [];

  arrived(requestId: string): void {
    if (this.#arrived.length < IDS_MAX) this.#arrived.push(requestId);
  }

  left(requestId: string): void {
    if (this.#left.length < IDS_MAX) this.#left.push(requestId);
  }

  /** Returns the requests since the last call; undefined = none. */
  take(): RequestsReport | undefined {
    if (this.#arrived.length === 0 && this.#left.length === 0) return undefined;
    const report = { arrived: this.#arrived, left: this.#left };
    this.#arrived = [];
    this.#left = [];
    return report;
  }
}
