import { type Clock, type Random, systemRandom } from '../../shared/clock/index.ts';
import { SequencedPublisher, SequenceWatch } from '../../shared/planes/event/envelope.ts';
import {
  anotherLog,
  type EventEnvelope,
  type EventListener,
  type EventLog,
  type EventLogEntry,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
  type EventPlane,
  type EventScope,
  type EventSubscription,
  LOGGED_TOPICS,
  subjectOf,
} from '../../shared/planes/event/types.ts';
import { decodeRecord, encodeRecord } from '../../shared/planes/record-codec.ts';

export interface MemoryEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /** Most messages in a log. @default 65536 */
  readonly logEntriesMax?: number;
}

/** An event plane inside one process, with the means to make its log fail. */
export interface MemoryEventPlane extends EventPlane {
  log: NonNullable<EventPlane['log']>;
  /** Replaces a log by an empty one, as a broker does that has lost its store. */
  recreateLog(scope: EventScope, topic: string): void;
}

/**
 * Creates an event plane inside one process. A subscription receives from the publishers connected to it, from the
 * connection on. Events are copied and arrive on a later turn. A bounded log keeps the messages of logged topics.
 */
export function createMemoryEventPlane(options: MemoryEventPlaneOptions): MemoryEventPlane {
  const { clock, random = systemRandom, logEntriesMax = 1 << 16 } = options;
  const subscriptions = new Set<MemorySubscription>();
  const logs = new Map<string, LogRecord>();
  let isClosed = false;

  function logOf(scope: EventScope, topic: string): LogRecord {
    const subject = subjectOf(scope, topic);
    const record = logs.get(subject) ?? new LogRecord(logEntriesMax);
    logs.set(subject, record);
    return record;
  }

  function publish(subject: string, { payload, ...envelope }: EventEnvelope): boolean {
    if (isClosed) return true;
    const bytes = Buffer.from(encodeRecord(payload));
    logs.get(subject)?.append(envelope, bytes);
    for (const subscription of subscriptions) {
      if (subscription.topic !== envelope.topic || !subscription.follows(envelope.publisherId)) continue;
      queueMicrotask(() => {
        if (!subscriptions.has(subscription)) return;
        subscription.receive({ ...envelope, payload: decodeRecord(bytes, 0, bytes.length) });
      });
    }
    return true;
  }

  return {
    name: 'memory',
    async publisher(scope, topic) {
      if (LOGGED_TOPICS.includes(topic)) logOf(scope, topic);
      const subject = subjectOf(scope, topic);
      const publisherId = random.instanceId();
      const transport = { kind: 'Memory', config: {} } as const;
      return new SequencedPublisher({ topic, publisherId, transport, clock, send: (event) => publish(subject, event) });
    },
    async subscribe(_scope, topic, listener) {
      const subscription = new MemorySubscription(topic, listener, () => subscriptions.delete(subscription));
      subscriptions.add(subscription);
      return subscription;
    },
    async log(scope, topic, signal) {
      signal.throwIfAborted();
      return new MemoryEventLog(logOf(scope, topic));
    },
    recreateLog: (scope, topic) => logs.get(subjectOf(scope, topic))?.recreate(),
    async close() {
      isClosed = true;
      subscriptions.clear();
    },
  };
}

class MemorySubscription extends SequenceWatch implements EventSubscription {
  readonly topic: string;
  readonly #onClosed: () => void;

  constructor(topic: string, listener: EventListener, onClosed: () => void) {
    super('Memory', listener, () => {});
    this.topic = topic;
    this.#onClosed = onClosed;
  }

  async close(): Promise<void> {
    this.#onClosed();
  }
}

/** A message in the log, whose payload is copied for every reader. */
interface KeptEvent {
  readonly envelope: Omit<EventEnvelope, 'payload'>;
  readonly payload: Buffer;
}

/** The log of one scope and topic: the newest `entriesMax` messages in a ring, by sequence. */
class LogRecord {
  generation = 1;
  firstSequence = 1;
  lastSequence = 0;
  readonly #ring: (KeptEvent | undefined)[];
  readonly #followers = new Set<MemoryFollower>();

  constructor(entriesMax: number) {
    this.#ring = new Array(entriesMax);
  }

  append(envelope: Omit<EventEnvelope, 'payload'>, payload: Buffer): void {
    this.lastSequence++;
    this.#ring[this.lastSequence % this.#ring.length] = { envelope, payload };
    this.firstSequence = Math.max(this.firstSequence, this.lastSequence - this.#ring.length + 1);
    for (const follower of this.#followers) follower.wake();
  }

  /** Drops everything and begins at 1 again, as a lost store would. */
  recreate(): void {
    this.#ring.fill(undefined);
    this.generation++;
    this.firstSequence = 1;
    this.lastSequence = 0;
    for (const follower of this.#followers) follower.wake();
  }

  purge(sequence: number): void {
    const throughSequence = Math.min(sequence, this.lastSequence);
    for (; this.firstSequence <= throughSequence; this.firstSequence++) {
      this.#ring[this.firstSequence % this.#ring.length] = undefined;
    }
  }

  /** Returns a copy of the entry at `sequence`, which the log still has. */
  entry(sequence: number): EventLogEntry {
    const { envelope, payload } = this.#ring[sequence % this.#ring.length]!; // within the bounds of the ring
    return { sequence, envelope: { ...envelope, payload: decodeRecord(payload, 0, payload.length) } };
  }

  add(follower: MemoryFollower): void {
    this.#followers.add(follower);
  }

  remove(follower: MemoryFollower): void {
    this.#followers.delete(follower);
  }
}

/** A reader of a log. */
class MemoryEventLog implements EventLog {
  readonly #record: LogRecord;
  #knownGeneration: number;

  constructor(record: LogRecord) {
    this.#record = record;
    this.#knownGeneration = record.generation;
  }

  async state(signal: AbortSignal): Promise<EventLogState> {
    signal.throwIfAborted();
    const { generation, firstSequence, lastSequence } = this.#record;
    this.#knownGeneration = generation;
    return { createdAt: `memory ${generation}`, firstSequence, lastSequence };
  }

  async *read(fromSequence: number, signal: AbortSignal): AsyncGenerator<EventLogEntry> {
    this.#refuseAnother();
    const { lastSequence } = this.#record;
    for (let at = fromSequence; ; at++) {
      await undefined; // a later turn, as on every plane
      signal.throwIfAborted();
      this.#refuseAnother();
      at = Math.max(at, this.#record.firstSequence);
      if (at > lastSequence) return;
      yield this.#record.entry(at);
    }
  }

  async follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower> {
    signal.throwIfAborted();
    const follower = new MemoryFollower(this.#record, fromSequence, this.#knownGeneration, listener);
    this.#record.add(follower);
    follower.wake();
    return { close: async () => follower.close() };
  }

  async purge(sequence: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#refuseAnother();
    this.#record.purge(sequence);
  }

  #refuseAnother(): void {
    if (this.#record.generation !== this.#knownGeneration) throw anotherLog();
  }
}

/** Passes entries on in later turns, from a cursor of its own. */
class MemoryFollower {
  readonly #record: LogRecord;
  readonly #listener: EventLogListener;
  #cursor: number;
  #generation: number;
  #isAwake = false;
  #isClosed = false;

  constructor(record: LogRecord, fromSequence: number, generation: number, listener: EventLogListener) {
    this.#record = record;
    this.#cursor = fromSequence;
    this.#generation = generation;
    this.#listener = listener;
  }

  wake(): void {
    if (this.#isAwake) return;
    this.#isAwake = true;
    queueMicrotask(() => {
      this.#isAwake = false;
      this.#catchUp();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#record.remove(this);
  }

  #catchUp(): void {
    if (this.#isClosed) return;
    const { generation, lastSequence } = this.#record;
    if (generation !== this.#generation) {
      this.#generation = generation;
      this.#skipTo(1);
    } else if (lastSequence + 1 < this.#cursor) {
      this.#skipTo(lastSequence + 1);
    }
    while (!this.#isClosed && this.#cursor <= this.#record.lastSequence) {
      if (this.#cursor < this.#record.firstSequence) this.#skipTo(this.#record.firstSequence);
      else this.#listener.entry(this.#record.entry(this.#cursor++));
    }
  }

  #skipTo(sequence: number): void {
    const expected = this.#cursor;
    this.#cursor = sequence;
    this.#listener.gap(expected, sequence);
  }
}
