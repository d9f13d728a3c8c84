import { decodeRecord } from '../../record-codec.ts';
import type {
  EventEnvelope,
  EventLog,
  EventLogEntry,
  EventLogFollower,
  EventLogListener,
  EventLogState,
} from '../types.ts';

/** A message as the log keeps it: its payload is copied for every reader. */
interface KeptEvent {
  readonly envelope: Omit<EventEnvelope, 'payload'>;
  readonly payload: Buffer;
}

/** What a plane keeps of one scope and topic: the newest `entriesMax` messages in a ring, by sequence. */
export class LogRecord {
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
export class MemoryEventLog implements EventLog {
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
