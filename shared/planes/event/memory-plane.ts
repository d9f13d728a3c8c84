import { type Clock, type Random, systemRandom } from '../../clock/index.ts';
import { decodeRecord, encodeRecord } from '../record-codec.ts';
import { SequenceWatch } from './envelope.ts';
import {
  type EventEnvelope,
  type EventListener,
  type EventLog,
  type EventLogEntry,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
  type EventPlane,
  type EventPublisher,
  type EventScope,
  type EventSubscription,
  subjectOf,
} from './types.ts';

export interface MemoryEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /** Topics whose log begins with their first publisher; that of any other begins when it is asked for. @default kv-events */
  readonly loggedTopics?: readonly string[];
  /** Messages that a log keeps. @default 65536 */
  readonly logEntriesMax?: number;
}

/** An event plane inside one process, with what a test needs to make its log fail. */
export interface MemoryEventPlane extends EventPlane {
  log: NonNullable<EventPlane['log']>;
  /** Makes a log anew and empty, as a broker does that has lost its store. */
  recreateLog(scope: EventScope, topic: string): void;
}

/** A subscription as its publishers see it. */
interface Follower {
  readonly topic: string;
  readonly publisherIds: Set<string>;
  receive(envelope: EventEnvelope): void;
}

/**
 * An event plane inside one process. A subscription hears the publishers it was connected to, from then on; events are
 * copied and arrive on a later turn. A bounded log keeps what is published on logged topics.
 */
export function createMemoryEventPlane(options: MemoryEventPlaneOptions): MemoryEventPlane {
  const { clock, random = systemRandom, loggedTopics = ['kv-events'], logEntriesMax = 1 << 16 } = options;
  const followers = new Set<Follower>();
  const logs = new Map<string, LogRecord>();
  let isClosed = false;

  function logOf(scope: EventScope, topic: string): LogRecord {
    const subject = subjectOf(scope, topic);
    const record = logs.get(subject) ?? new LogRecord(logEntriesMax);
    logs.set(subject, record);
    return record;
  }

  function publish(subject: string, envelope: Omit<EventEnvelope, 'payload'>, payload: unknown): void {
    const bytes = Buffer.from(encodeRecord('msgpack', payload));
    logs.get(subject)?.append(envelope, bytes);
    for (const follower of followers) {
      if (follower.topic !== envelope.topic || !follower.publisherIds.has(envelope.publisherId)) continue;
      queueMicrotask(() => {
        if (!followers.has(follower) || !follower.publisherIds.has(envelope.publisherId)) return;
        follower.receive({ ...envelope, payload: decodeRecord('msgpack', bytes, 0, bytes.length) });
      });
    }
  }

  return {
    name: 'memory',
    async publisher(scope, topic) {
      if (loggedTopics.includes(topic)) logOf(scope, topic);
      const subject = subjectOf(scope, topic);
      const send: Send = (envelope, payload) => publish(subject, envelope, payload);
      return createPublisher(topic, random.instanceId(), clock, send, () => isClosed);
    },
    subscribe: async (_scope, topic, listener) => createSubscription(topic, listener, followers),
    async log(scope, topic, signal) {
      signal.throwIfAborted();
      return new MemoryEventLog(logOf(scope, topic));
    },
    recreateLog: (scope, topic) => logs.get(subjectOf(scope, topic))?.recreate(),
    async close() {
      isClosed = true;
      followers.clear();
    },
  };
}

type Send = (envelope: Omit<EventEnvelope, 'payload'>, payload: unknown) => void;

function createPublisher(
  topic: string,
  publisherId: string,
  clock: Clock,
  publish: Send,
  isPlaneClosed: () => boolean,
): EventPublisher {
  let sequence = 0;
  let dropped = 0;
  let isClosed = false;
  return {
    publisherId,
    transport: { kind: 'Memory', config: {} },
    publish(payload) {
      if (isClosed || isPlaneClosed()) return;
      const envelope = { topic, publisherId, sequence: sequence++, publishedAtMs: clock.wallMs() };
      try {
        publish(envelope, payload);
      } catch {
        dropped++; // a payload that cannot be encoded; subscribers see the gap
      }
    },
    get dropped() {
      return dropped;
    },
    async close() {
      isClosed = true;
    },
  };
}

function createSubscription(topic: string, listener: EventListener, followers: Set<Follower>): EventSubscription {
  const watch = new SequenceWatch(listener);
  const follower: Follower = { topic, publisherIds: new Set(), receive: (envelope) => watch.receive(envelope) };
  followers.add(follower);
  return {
    connect: (publisherId) => void follower.publisherIds.add(publisherId),
    disconnect(publisherId) {
      follower.publisherIds.delete(publisherId);
      watch.forget(publisherId);
    },
    get missed() {
      return watch.missed;
    },
    async close() {
      followers.delete(follower);
    },
  };
}

/** A message as the log keeps it: its payload is copied for every reader. */
interface KeptEvent {
  readonly envelope: Omit<EventEnvelope, 'payload'>;
  readonly payload: Buffer;
}

/** What a plane keeps of one scope and topic: the newest `entriesMax` messages in a ring, by sequence. */
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

  /** Forgets everything and begins at 1 again, as a store that was lost. */
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

  /** A copy of what stands at `sequence`, which is kept. */
  entry(sequence: number): EventLogEntry {
    const { envelope, payload } = this.#ring[sequence % this.#ring.length]!; // within the bounds kept
    return { sequence, envelope: { ...envelope, payload: decodeRecord('msgpack', payload, 0, payload.length) } };
  }

  add(follower: MemoryFollower): void {
    this.#followers.add(follower);
  }

  remove(follower: MemoryFollower): void {
    this.#followers.delete(follower);
  }
}

/** A reader's hold on a record. */
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
    if (this.#record.generation === this.#knownGeneration) return;
    throw new Error('the event log was created anew: its sequences are not those known here; read its state again');
  }
}

/** Hands entries on, on later turns, from its own cursor. */
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
