import type { Clock, Timer } from '../clock/index.ts';
import type { EventPublisher } from '../planes/index.ts';
import { asRecord, RecordReader, type UnknownRecord, u64OfHex } from '../records/index.ts';
import type { RankId } from '../router/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import { MessageLag } from './message-lag.ts';

/** Change that another router made to a request. */
export interface ActiveSequenceEvent extends RankId {
  readonly requestId: string;
  /** Id of the router that made it, hex. */
  readonly routerId: string;
  readonly loraName: string | undefined;
  readonly change: ActiveSequenceChange;
}

export type ActiveSequenceChange =
  | {
      readonly kind: 'added';
      /** Sequence hashes of the complete prompt blocks, pairs of u32 halves; undefined if blocks are not tracked. */
      readonly sequenceHashes: Uint32Array | undefined;
      readonly tracksPrefillTokens: boolean;
      readonly expectedOutputTokens: number | undefined;
      /** Prompt tokens to compute. They decay from the time at which the receiver gets the event. */
      readonly prefillTokens: number | undefined;
      readonly expectedPrefillMs: number | undefined;
      /** Whether the router will decide the request again, and may free it for another worker. @default false */
      readonly isProvisional?: boolean;
    }
  | {
      /** The request waits in the queue of its router, until it is added or freed. The rank only names its pool. */
      readonly kind: 'waits';
      readonly sequenceHashes: Uint32Array;
      /** Prompt tokens left to compute at the best rank. */
      readonly uncachedTokens: number;
      /** Milliseconds since its arrival. */
      readonly waitedMs: number;
      readonly expectedOutputTokens: number | undefined;
      /** Seconds ahead of its arrival. @default 0 */
      readonly priorityJump: number | undefined;
      /** Tier in the queue. @default 0 */
      readonly strictPriority: number | undefined;
    }
  | { readonly kind: 'prefill_done' }
  | { readonly kind: 'freed' };

/** Bound of the hashes in one event: a prompt of 4 million tokens in blocks of 16. */
const HASHES_MAX = 262_144;
const EVENTS_MAX = 65_536;
const ID_CHARACTERS_MAX = 1024;
const BYTES_PER_HASH = 8;
const MS_PER_SECOND = 1000;
const NANOS_PER_MS = 1e6;

/** Form of the messages: Stator's own, or the one that Dynamo's routers read. */
export type SequenceForm = 'stator' | 'dynamo';

/**
 * Encodes one event. In Stator's own form ids are decimal text and hashes are bytes, 8 each, little-endian. In Dynamo's
 * form both are numbers.
 */
export function encodeActiveSequence(event: ActiveSequenceEvent, form: SequenceForm = 'stator'): unknown {
  const id = (hex: string): unknown => (form === 'dynamo' ? u64OfHex(hex) : u64OfHex(hex).toString());
  return {
    request_id: event.requestId,
    worker: { worker_id: id(event.workerId), dp_rank: event.dpRank },
    data: encodeChange(event.change, form),
    router_id: id(event.routerId),
    lora_name: event.loraName ?? null,
  };
}

/**
 * Decodes the events of one message: in Stator's own form, or in Dynamo's with 64-bit values as text, bigints or
 * numbers. A message has a single event or a list, which in Dynamo's form may be the field `events`. Leaves out what it
 * cannot read, and calls `onMalformed`. Never throws. It cannot read a number that JSON has rounded: pass the text
 * through `parseExactJson`.
 */
export function decodeActiveSequences(payload: unknown, onMalformed: () => void): readonly ActiveSequenceEvent[] {
  const list = asRecord(payload)?.events ?? payload;
  const records = Array.isArray(list) ? list.slice(0, EVENTS_MAX) : [list];
  const events: ActiveSequenceEvent[] = [];
  for (const record of records) {
    try {
      events.push(decodeEvent(record));
    } catch (error) {
      if (!(error instanceof MalformedEvent)) throw error;
      onMalformed();
    }
  }
  return events;
}

class MalformedEvent extends Error {}

const read = new RecordReader((what) => new MalformedEvent(what));

function encodeChange(change: ActiveSequenceChange, form: SequenceForm): unknown {
  if (change.kind === 'freed') return 'Free';
  if (change.kind === 'prefill_done') return 'MarkPrefillCompleted';
  if (change.kind === 'waits') return encodeWaits(change);
  const { sequenceHashes, prefillTokens, expectedPrefillMs, expectedOutputTokens } = change;
  const hashes = form === 'dynamo' ? numbersOf : bytesOf;
  return {
    AddRequest: {
      token_sequence: sequenceHashes === undefined ? null : hashes(sequenceHashes),
      ...(change.isProvisional === true && form === 'stator' ? { is_provisional: true } : {}),
      track_prefill_tokens: change.tracksPrefillTokens,
      expected_output_tokens: expectedOutputTokens ?? null,
      prefill_load_hint:
        prefillTokens === undefined
          ? null
          : {
              initial_effective_prefill_tokens: prefillTokens,
              expected_prefill_duration: expectedPrefillMs === undefined ? null : durationOf(expectedPrefillMs),
            },
    },
  };
}

/** Encodes a place in the queue. Routers of older releases do not know it, and leave the event out. */
function encodeWaits(change: Extract<ActiveSequenceChange, { kind: 'waits' }>): unknown {
  const { sequenceHashes, uncachedTokens, waitedMs, expectedOutputTokens, priorityJump, strictPriority } = change;
  return {
    Waits: {
      token_sequence: bytesOf(sequenceHashes),
      uncached_tokens: uncachedTokens,
      waited_ms: Math.round(waitedMs),
      expected_output_tokens: expectedOutputTokens ?? null,
      priority_jump_ms: priorityJump === undefined ? null : Math.round(Math.max(0, priorityJump) * MS_PER_SECOND),
      strict_priority: strictPriority ?? null,
    },
  };
}

function decodeWaits(waits: UnknownRecord): ActiveSequenceChange {
  const jumpMs = optionalCount(waits, 'priority_jump_ms');
  return {
    kind: 'waits',
    sequenceHashes: hashesOf(waits.token_sequence),
    uncachedTokens: read.wholeNumber(waits.uncached_tokens, 'uncached_tokens'),
    waitedMs: read.wholeNumber(waits.waited_ms, 'waited_ms'),
    expectedOutputTokens: optionalCount(waits, 'expected_output_tokens'),
    priorityJump: jumpMs === undefined ? undefined : jumpMs / MS_PER_SECOND,
    strictPriority: optionalCount(waits, 'strict_priority'),
  };
}

function decodeEvent(record: unknown): ActiveSequenceEvent {
  const fields = read.record(record, 'event');
  const worker = read.record(fields.worker, 'worker');
  const { request_id: requestId, lora_name: loraName } = fields;
  return {
    requestId: read.text(requestId, 'request_id', ID_CHARACTERS_MAX),
    workerId: read.u64(worker.worker_id, 'worker_id').toString(16),
    dpRank: read.wholeNumber(worker.dp_rank ?? 0, 'dp_rank'),
    routerId: read.u64(fields.router_id, 'router_id').toString(16),
    loraName: typeof loraName === 'string' ? loraName : undefined,
    change: decodeChange(fields.data),
  };
}

function decodeChange(data: unknown): ActiveSequenceChange {
  if (data === 'Free') return { kind: 'freed' };
  if (data === 'MarkPrefillCompleted') return { kind: 'prefill_done' };
  const { Waits: waits, AddRequest: booked } = read.record(data, 'data');
  if (waits !== undefined) return decodeWaits(read.record(waits, 'Waits'));
  const added = read.record(booked, 'AddRequest');
  const { track_prefill_tokens: tracks, token_sequence: sequence } = added;
  const hint = read.record(added.prefill_load_hint ?? {}, 'prefill_load_hint');
  const { expected_prefill_duration: duration } = hint;
  return {
    kind: 'added',
    sequenceHashes: sequence === null || sequence === undefined ? undefined : hashesOf(sequence),
    tracksPrefillTokens: tracks !== false,
    expectedOutputTokens: optionalCount(added, 'expected_output_tokens'),
    prefillTokens: optionalCount(hint, 'initial_effective_prefill_tokens'),
    expectedPrefillMs: duration === null || duration === undefined ? undefined : millisecondsOf(duration),
    ...(added.is_provisional === true ? { isProvisional: true } : {}),
  };
}

function bytesOf(pairs: Uint32Array): Uint8Array {
  return new Uint8Array(pairs.buffer, pairs.byteOffset, pairs.byteLength); // little-endian, as on every machine of Node
}

function numbersOf(pairs: Uint32Array): readonly bigint[] {
  return Array.from(new BigUint64Array(Uint32Array.from(pairs).buffer)); // copied, because it may not be aligned
}

function hashesOf(value: unknown): Uint32Array {
  if (value instanceof Uint8Array) {
    if (value.length % BYTES_PER_HASH !== 0 || value.length > HASHES_MAX * BYTES_PER_HASH) throw new MalformedEvent();
    return new Uint32Array(Uint8Array.from(value).buffer);
  }
  return read.u64Pairs(value, 'token_sequence', HASHES_MAX);
}

function durationOf(ms: number): { readonly secs: number; readonly nanos: number } {
  const secs = Math.floor(ms / MS_PER_SECOND);
  return { secs, nanos: Math.floor((ms - secs * MS_PER_SECOND) * NANOS_PER_MS) };
}

function millisecondsOf(value: unknown): number {
  const { secs, nanos } = read.record(value, 'expected_prefill_duration');
  return read.wholeNumber(secs, 'secs') * MS_PER_SECOND + read.wholeNumber(nanos, 'nanos') / NANOS_PER_MS;
}

/** Returns the count of that name; undefined if it is absent or null. */
function optionalCount(fields: UnknownRecord, name: string): number | undefined {
  const value = fields[name] ?? undefined;
  return value === undefined ? undefined : read.wholeNumber(value, name);
}

/** Topic of the messages between routers, in the scope of the component. */
export const ACTIVE_SEQUENCES_TOPIC = 'active_sequences_events';

export interface ReplicaSyncOptions {
  readonly publisher: Pick<EventPublisher, 'publish'>;
  /** Id of this router, hex. It ignores its own events when they come back. */
  readonly routerId: string;
  /** Form of the messages that it publishes. It reads both. @default 'stator' */
  readonly form?: SequenceForm;
  readonly clock: Clock;
  /**
   * Applies a change of another router: it books a request, frees it, or ends its prefill. `apply` must itself handle
   * unknown ids and workers.
   */
  apply(event: ActiveSequenceEvent): void;
  /** Called when a record could not be read. */
  onMalformed?(): void;
  /**
   * Called when a booking of another router was not recorded, because there are too many. Only that router, or a time
   * limit, then frees it.
   */
  onFull?(): void;
  /** Bound of the recorded open requests of other routers. @default 262_144 */
  readonly peerRequestsMax?: number;
}

/** Bound of the events in one message. */
const BATCH_MAX = 256;
const PEER_REQUESTS_MAX = 262_144;
const BATCH_MS = 1;
/** Time after which an event that did not come back counts as lost, and another one is timed. */
const PROBE_MS_MAX = 10_000;

/**
 * Sends the bookings and releases of this router to the other routers of a pool, and receives theirs. It neither
 * repeats nor confirms a message. The reports of workers correct for lost messages, see `UnattributedLoad`.
 */
export class ReplicaSync {
  readonly #options: ReplicaSyncOptions;
  /**
   * Bookings by `bookingOf`. Their keys name router and worker, because a client may send one id through several
   * routers, and one request is booked at several workers.
   */
  readonly #peerRequests = new Map<string, ActiveSequenceEvent>();
  /** Places in queues by router and request, each as the event that ends it. */
  readonly #peerPlaces = new Map<string, ActiveSequenceEvent>();
  /** Number of bookings by router; a router leaves with its last one. */
  readonly #counts = new Map<string, number>();
  #batch: unknown[] = [];
  #timer: Timer | undefined;
  #isClosed = false;
  readonly #lag = new MessageLag();
  /** Own event whose return is timed. */
  #probe: { readonly requestId: string; readonly toldMs: number } | undefined;

  constructor(options: ReplicaSyncOptions) {
    this.#options = options;
  }

  /**
   * Milliseconds from a change until other routers hear of it: the median of what this router's latest own events took
   * to come back. 5 if none did in the last minute.
   */
  get lagMs(): number {
    return this.#lag.at(this.#options.clock.nowMs());
  }

  /** Publishes `event` within 1 ms, together with later events of that time. */
  tell(event: Omit<ActiveSequenceEvent, 'routerId'>): void {
    if (this.#isClosed) return;
    const { routerId, form } = this.#options;
    if (event.change.kind === 'added') this.#time(event.requestId);
    this.#batch.push(encodeActiveSequence({ ...event, routerId }, form));
    if (this.#batch.length >= BATCH_MAX) this.#flush();
    else this.#timer ??= this.#options.clock.after(BATCH_MS, () => this.#flush());
  }

  /**
   * Takes the payload of a message on the topic. Never throws for its contents.
   * @param onRouter called with the other router that sent an event
   */
  receive(payload: unknown, onRouter?: (routerId: string) => void): void {
    const { routerId, apply, onMalformed } = this.#options;
    for (const event of decodeActiveSequences(payload, () => onMalformed?.())) {
      if (event.routerId === routerId) {
        this.#timed(event);
        continue;
      }
      onRouter?.(event.routerId);
      this.#remember(event);
      apply(event);
    }
  }

  /**
   * Frees the bookings of other routers that those routers may never free: the bookings of one router that is gone, or
   * of all routers if the event plane is unreachable. `UnattributedLoad` still counts the requests that really run.
   */
  forgetPeers(routerId?: string): void {
    for (const [booking, event] of this.#peerRequests) {
      if (routerId !== undefined && event.routerId !== routerId) continue;
      this.#drop(booking, event.routerId);
      this.#options.apply({ ...event, change: { kind: 'freed' } });
    }
    for (const [place, event] of this.#peerPlaces) {
      if (routerId !== undefined && event.routerId !== routerId) continue;
      this.#peerPlaces.delete(place);
      this.#options.apply(event);
    }
  }

  /** Returns the number of open bookings of each other router that has some. */
  get peerBookings(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Publishes the waiting events, and none after them. Idempotent. */
  close(): void {
    this.#flush();
    this.#isClosed = true;
  }

  #time(requestId: string): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#probe !== undefined && nowMs - this.#probe.toldMs < PROBE_MS_MAX) return;
    this.#probe = { requestId, toldMs: nowMs };
  }

  #timed({ requestId, change }: ActiveSequenceEvent): void {
    if (change.kind !== 'added' || requestId !== this.#probe?.requestId) return;
    const nowMs = this.#options.clock.nowMs();
    this.#lag.measured(nowMs - this.#probe.toldMs, nowMs);
    this.#probe = undefined;
  }

  #remember(event: ActiveSequenceEvent): void {
    const { peerRequestsMax = PEER_REQUESTS_MAX, onFull } = this.#options;
    const booking = bookingOf(event);
    this.#rememberPlace(event);
    if (event.change.kind === 'freed') this.#drop(booking, event.routerId);
    else if (event.change.kind === 'added') {
      if (this.#peerRequests.size >= peerRequestsMax && !this.#peerRequests.has(booking)) onFull?.();
      else {
        if (!this.#peerRequests.has(booking)) this.#count(event.routerId, 1);
        this.#peerRequests.set(booking, { ...event, change: { kind: 'freed' } }); // without the hashes
      }
    }
  }

  #rememberPlace(event: ActiveSequenceEvent): void {
    const { peerRequestsMax = PEER_REQUESTS_MAX, onFull } = this.#options;
    const { routerId, requestId, change } = event;
    const waits = change.kind === 'waits';
    if (!waits && this.#peerPlaces.size === 0) return;
    const place = `${routerId}/${requestId}`; // without the worker, which only names the pool
    if (!waits) this.#peerPlaces.delete(place);
    else if (this.#peerPlaces.size >= peerRequestsMax) onFull?.();
    else this.#peerPlaces.set(place, { ...event, change: { kind: 'freed' } });
  }

  #drop(booking: string, routerId: string): void {
    if (this.#peerRequests.delete(booking)) this.#count(routerId, -1);
  }

  #count(routerId: string, change: 1 | -1): void {
    const count = (this.#counts.get(routerId) ?? 0) + change;
    if (count === 0) this.#counts.delete(routerId);
    else this.#counts.set(routerId, count);
  }

  #flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#batch.length === 0) return;
    const batch = this.#batch;
    this.#batch = [];
    this.#options.publisher.publish(this.#options.form === 'dynamo' ? { events: batch } : batch);
  }
}

/** Names a booking among those of all routers. */
function bookingOf({ routerId, requestId, workerId, dpRank }: ActiveSequenceEvent): string {
  return `${routerId}/${workerId}/${dpRank}/${requestId}`;
}

const NO_HASHES = new Uint32Array(0);

/** Books the requests of other routers with the scheduler of the same worker set. */
export function replicaBookings(
  scheduler: Pick<Scheduler, 'book' | 'heardWaiting' | 'prefillDone' | 'free'>,
  blockSizeTokens: number,
): (event: ActiveSequenceEvent) => void {
  return ({ requestId, routerId, workerId, dpRank, change }) => {
    const id = `${routerId}/${requestId}`; // a client may send one id through two routers
    switch (change.kind) {
      case 'added': {
        const { sequenceHashes, tracksPrefillTokens, expectedOutputTokens, prefillTokens, expectedPrefillMs } = change;
        scheduler.book({
          requestId: id,
          provisionalId: change.isProvisional === true ? requestId : undefined,
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
      case 'waits': {
        const promptTokens = (change.sequenceHashes.length >> 1) * blockSizeTokens;
        scheduler.heardWaiting({ ...change, id, requestId, promptTokens });
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
