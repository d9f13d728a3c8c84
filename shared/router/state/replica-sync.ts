import type { Clock, Timer } from '../../clock/index.ts';
import type { EventPublisher } from '../../planes/event/index.ts';
import type { Scheduler } from '../scheduler/types.ts';
import { type ActiveSequenceEvent, decodeActiveSequences, encodeActiveSequence } from './active-sequence-event.ts';

/** Topic of what routers tell each other, in the scope of the component. */
export const ACTIVE_SEQUENCES_TOPIC = 'active_sequences_events';

export interface ReplicaSyncOptions {
  readonly publisher: Pick<EventPublisher, 'publish'>;
  /** Of this router, hex; its own events are passed over when they come back. */
  readonly routerId: string;
  readonly clock: Clock;
  /** Another router did something: books, releases, or lets its prefill tokens go. Unknown ids and workers are its to judge. */
  apply(event: ActiveSequenceEvent): void;
  /** Hears of records that could not be read. */
  onMalformed?(): void;
  /** A booking of another router is not remembered, as too many are: only that router, or time, will free it. */
  onFull?(): void;
  /** Open requests of other routers that are remembered. @default 262_144 */
  readonly peerRequestsMax?: number;
}

/** Events in one message. */
const BATCH_MAX = 256;
const PEER_REQUESTS_MAX = 262_144;
const BATCH_MS = 1;

/**
 * Tells the other routers of a pool what this one books and frees, and hears the same from them.
 * Nothing is replayed and nothing is confirmed: what gets lost is put right by what the workers say, see `UnattributedLoad`.
 */
export class ReplicaSync {
  readonly #options: ReplicaSyncOptions;
  /** By `bookingOf`: a client may send one id through several routers, and one request books at several workers. */
  readonly #peerRequests = new Map<string, ActiveSequenceEvent>();
  #batch: unknown[] = [];
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: ReplicaSyncOptions) {
    this.#options = options;
  }

  /** Publishes `event` within 1 ms, together with what else happens until then. */
  tell(event: Omit<ActiveSequenceEvent, 'routerId'>): void {
    if (this.#isClosed) return;
    this.#batch.push(encodeActiveSequence({ ...event, routerId: this.#options.routerId }));
    if (this.#batch.length >= BATCH_MAX) this.#flush();
    else this.#timer ??= this.#options.clock.after(BATCH_MS, () => this.#flush());
  }

  /** Takes the payload of a message on the topic. Never throws for what it holds. */
  receive(payload: unknown): void {
    const { routerId, apply, onMalformed } = this.#options;
    for (const event of decodeActiveSequences(payload, () => onMalformed?.())) {
      if (event.routerId === routerId) continue;
      this.#remember(event);
      apply(event);
    }
  }

  /**
   * Frees what other routers booked and may never free: all of them when the event plane is away, or one that is gone. What
   * really runs is still seen through `UnattributedLoad`.
   */
  forgetPeers(routerId?: string): void {
    for (const [booking, event] of this.#peerRequests) {
      if (routerId !== undefined && event.routerId !== routerId) continue;
      this.#peerRequests.delete(booking);
      this.#options.apply({ ...event, change: { kind: 'freed' } });
    }
  }

  /** Publishes what is waiting, and nothing after it. Idempotent. */
  close(): void {
    this.#flush();
    this.#isClosed = true;
  }

  #remember(event: ActiveSequenceEvent): void {
    const { peerRequestsMax = PEER_REQUESTS_MAX, onFull } = this.#options;
    const booking = bookingOf(event);
    if (event.change.kind === 'freed') this.#peerRequests.delete(booking);
    else if (event.change.kind === 'added') {
      if (this.#peerRequests.size >= peerRequestsMax && !this.#peerRequests.has(booking)) onFull?.();
      else this.#peerRequests.set(booking, { ...event, change: { kind: 'freed' } }); // without its hashes
    }
  }

  #flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#batch.length === 0) return;
    const batch = this.#batch;
    this.#batch = [];
    this.#options.publisher.publish(batch);
  }
}

/** Names a booking among those of all routers. */
function bookingOf({ routerId, requestId, workerId, dpRank }: ActiveSequenceEvent): string {
  return `${routerId}/${workerId}/${dpRank}/${requestId}`;
}

const NO_HASHES = new Uint32Array(0);

/** Books what other routers tell of with the scheduler of the same worker set. */
export function replicaBookings(
  scheduler: Pick<Scheduler, 'book' | 'prefillDone' | 'free'>,
  blockSizeTokens: number,
): (event: ActiveSequenceEvent) => void {
  return ({ requestId, routerId, workerId, dpRank, change }) => {
    const id = `${routerId}/${requestId}`; // a client may send one id through two routers
    switch (change.kind) {
      case 'added': {
        const { sequenceHashes, tracksPrefillTokens, expectedOutputTokens, prefillTokens, expectedPrefillMs } = change;
        scheduler.book({
          requestId: id,
          workerId,
          dpRank,
          promptTokens: ((sequenceHashes?.length ?? 0) >> 1) * blockSizeTokens,
          hashes: sequenceHashes && { local: NO_HASHES, sequence: sequenceHashes },
          uncachedTokens: tracksPrefillTokens ? (prefillTokens ?? 0) : 0,
          expectedOutputTokens,
          prefillMs: expectedPrefillMs,
        });
        return;
      }
      case 'prefill_done':
        scheduler.prefillDone(id);
        return;
      case 'freed':
        scheduler.free(id);
    }
  };
}
