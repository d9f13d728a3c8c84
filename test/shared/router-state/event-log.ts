import type { EventLogEntry } from '../../../shared/planes/event/types.ts';
import type {
  EventEnvelope,
  EventLog,
  EventLogFollower,
  EventLogListener,
  EventLogState,
} from '../../../shared/planes/index.ts';

interface Following {
  next: number;
  readonly listener: EventLogListener;
}

/** An event log in memory that a test writes to, cuts and makes anew. It delivers entries on later turns, in order. */
export class ScriptedEventLog implements EventLog {
  #createdAt = 'log-0';
  #generation = 0;
  #entries: EventLogEntry[] = [];
  #lastSequence = 0;
  readonly #followers = new Set<Following>();

  get lastSequence(): number {
    return this.#lastSequence;
  }

  append(payload: unknown): void {
    const sequence = ++this.#lastSequence;
    const envelope: EventEnvelope = { topic: 'kv-events', publisherId: 'a', sequence, publishedAtMs: 0, payload };
    this.#entries.push({ sequence, envelope });
    for (const follower of this.#followers) queueMicrotask(() => this.#deliver(follower));
  }

  /** Drops the oldest entries, as a log does that is full or old. */
  drop(throughSequence: number): void {
    this.#entries = this.#entries.filter(({ sequence }) => sequence > throughSequence);
    for (const follower of this.#followers) this.#deliver(follower);
  }

  /** The log is lost and made anew. `isQuiet`: followers are not told. */
  recreate(isQuiet = false): void {
    this.#createdAt = `log-${++this.#generation}`;
    this.#entries = [];
    this.#lastSequence = 0;
    for (const follower of this.#followers) {
      const expected = follower.next;
      follower.next = 1;
      if (isQuiet) this.#followers.delete(follower);
      else follower.listener.gap(expected, 1);
    }
  }

  async state(signal: AbortSignal): Promise<EventLogState> {
    signal.throwIfAborted();
    const firstSequence = this.#entries[0]?.sequence ?? this.#lastSequence + 1;
    return { createdAt: this.#createdAt, firstSequence, lastSequence: this.#lastSequence };
  }

  async *read(fromSequence: number): AsyncGenerator<EventLogEntry> {
    yield* this.#entries.filter(({ sequence }) => sequence >= fromSequence);
  }

  async follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower> {
    signal.throwIfAborted();
    const follower: Following = { next: fromSequence, listener };
    this.#followers.add(follower);
    queueMicrotask(() => this.#deliver(follower));
    return { close: async () => void this.#followers.delete(follower) };
  }

  async purge(sequence: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.drop(sequence);
  }

  #deliver(follower: Following): void {
    const first = this.#entries[0]?.sequence ?? this.#lastSequence + 1;
    if (follower.next < first && this.#followers.has(follower)) {
      const expected = follower.next;
      follower.next = first;
      follower.listener.gap(expected, first);
    }
    for (const entry of this.#entries) {
      if (!this.#followers.has(follower)) return;
      if (entry.sequence !== follower.next) continue;
      follower.next++;
      follower.listener.entry(entry);
    }
  }
}
