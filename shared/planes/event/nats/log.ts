import type { Clock, Random } from '../../../clock/index.ts';
import { untilAborted } from '../../../concurrency/index.ts';
import { retryPauseMs } from '../../nats/client.ts';
import type { NatsStream } from '../../nats/stream.ts';
import type { NatsStreamFacts } from '../../nats/types.ts';
import { decodeEnvelopeRecord, handOn } from '../envelope.ts';
import {
  anotherLog,
  type EventEnvelope,
  type EventLog,
  type EventLogEntry,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
} from '../types.ts';
import { bufferOf } from './subscription.ts';

interface NatsEventLogOptions {
  readonly stream: NatsStream;
  readonly topic: string;
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Called for a message that is not an event (it is skipped), a listener that threw, or a stream that cannot be read
   * for now.
   */
  readonly onProblem: (problem: unknown) => void;
  /** Followers that the plane closes with itself. */
  readonly followers: Set<EventLogFollower>;
}

/** Log of one subject in its JetStream stream. */
export class NatsEventLog implements EventLog {
  readonly #options: NatsEventLogOptions;
  /** Creation time of the log that the caller knows, so that sequences of another log are never taken for its own. */
  #knownCreatedAt: string | undefined;

  constructor(options: NatsEventLogOptions) {
    this.#options = options;
  }

  async state(signal: AbortSignal): Promise<EventLogState> {
    const { createdAt, firstSequence, lastSequence } = await this.#options.stream.facts(signal);
    this.#knownCreatedAt = createdAt;
    return { createdAt, firstSequence, lastSequence };
  }

  async *read(fromSequence: number, signal: AbortSignal): AsyncGenerator<EventLogEntry> {
    const { stream, topic, onProblem } = this.#options;
    const atStart = await stream.facts(signal);
    this.#refuseAnother(atStart);
    let cursor = fromSequence;
    let endedAt: number | undefined;
    while (cursor <= atStart.lastSequence) {
      const reader = await stream.read(cursor, signal);
      try {
        // Only now is it certain which log the reader reads.
        const facts = await stream.facts(signal);
        if (facts.createdAt !== atStart.createdAt) throw anotherLog();
        for (;;) {
          const page = await reader.next(false);
          if (page === undefined) break; // it is lost, and opened again after the last message read
          for (const { sequence, data } of page.messages) {
            if (sequence > atStart.lastSequence) return;
            cursor = sequence + 1;
            let envelope: EventEnvelope | undefined;
            const keep = (read: EventEnvelope): void => {
              envelope = read;
            };
            const long = handOn(() => decodeEnvelopeRecord(topic, bufferOf(data)), keep, onProblem);
            if (long !== undefined) await long;
            if (envelope !== undefined) yield { sequence, envelope };
          }
          if (cursor > atStart.lastSequence) return;
          if (!page.isLast) continue;
          // A busy server may say too early that nothing is left. Only if it says so again is the rest deleted.
          if (endedAt === cursor) return;
          endedAt = cursor;
          break;
        }
      } finally {
        reader.close();
      }
    }
  }

  async follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower> {
    const follower = new LogFollower(this.#options, fromSequence, this.#knownCreatedAt, listener);
    this.#options.followers.add(follower);
    await follower.start(signal);
    return follower;
  }

  async purge(sequence: number, signal: AbortSignal): Promise<void> {
    const facts = await this.#options.stream.facts(signal);
    this.#refuseAnother(facts);
    await this.#options.stream.purge(sequence, signal);
  }

  #refuseAnother({ createdAt }: NatsStreamFacts): void {
    if (this.#knownCreatedAt !== undefined && createdAt !== this.#knownCreatedAt) throw anotherLog();
  }
}

/**
 * Follows a stream through outages. It keeps its own cursor: whatever happens to the server's side, reading continues
 * from there, and messages that no longer exist are reported as a gap.
 *
 * | Found when (re)opening | Reported | Continues at |
 * |---|---|---|
 * | the same stream, cursor kept | - | cursor |
 * | its first message is after the cursor | gap(cursor, first) | first |
 * | another creation time | gap(cursor, 1) | 1 |
 * | it ends before the cursor (its tail was lost) | gap(cursor, last + 1) | last + 1 |
 */
class LogFollower implements EventLogFollower {
  readonly #options: NatsEventLogOptions;
  readonly #listener: EventLogListener;
  readonly #closing = new AbortController();
  #cursor: number;
  #createdAt: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #onOpen: (() => void) | undefined;

  /** @param createdAt creation of the log that `fromSequence` belongs to; undefined = the current log */
  constructor(
    options: NatsEventLogOptions,
    fromSequence: number,
    createdAt: string | undefined,
    listener: EventLogListener,
  ) {
    this.#options = options;
    this.#cursor = fromSequence;
    this.#createdAt = createdAt;
    this.#listener = listener;
  }

  /** Resolves when the stream is open for the first time. Closes and rejects if `signal` aborts before. */
  async start(signal: AbortSignal): Promise<void> {
    const opened = new Promise<void>((resolve) => {
      this.#onOpen = resolve;
    });
    this.#running = this.#run();
    try {
      await untilAborted(opened, signal);
    } catch (reason) {
      await this.close();
      throw reason;
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#options.followers.delete(this);
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, random, onProblem } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await this.#readUntilLost(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#failures++;
        onProblem(error);
      }
      await clock.sleep(retryPauseMs(this.#failures, random), signal).catch(() => {}); // closed: the loop ends
    }
  }

  async #readUntilLost(signal: AbortSignal): Promise<void> {
    const { stream } = this.#options;
    const facts = await stream.facts(signal);
    this.#align(facts);
    const reader = await stream.read(this.#cursor, signal);
    try {
      // only now is it certain which stream the reader reads
      const { createdAt, lastSequence } = await stream.facts(signal);
      if (createdAt !== facts.createdAt) return;
      this.#failures = 0;
      this.#onOpen?.();
      for (;;) {
        const isCaughtUp = this.#cursor > lastSequence;
        const page = await reader.next(isCaughtUp);
        if (page === undefined) return;
        for (const { sequence, data } of page.messages) {
          const long = this.#receive(sequence, data);
          if (long !== undefined) await long; // later messages wait with the reader, which asks for no more
          if (signal.aborted) return;
        }
        // It was purged meanwhile, or the server has lost count of its messages.
        if (page.isLast && this.#cursor <= lastSequence) return;
      }
    } finally {
      reader.close();
    }
  }

  #align({ createdAt, firstSequence, lastSequence }: NatsStreamFacts): void {
    const isAnother = this.#createdAt !== undefined && createdAt !== this.#createdAt;
    this.#createdAt = createdAt;
    if (isAnother) this.#skipTo(1);
    else if (lastSequence + 1 < this.#cursor) this.#skipTo(lastSequence + 1);
    if (firstSequence > this.#cursor) this.#skipTo(firstSequence);
  }

  /** Returns a promise, which never rejects, for an event that takes several turns to read. */
  #receive(sequence: number, data: Uint8Array): Promise<void> | undefined {
    if (sequence < this.#cursor) return undefined;
    if (sequence > this.#cursor) this.#skipTo(sequence);
    this.#cursor = sequence + 1;
    const { topic, onProblem } = this.#options;
    const tell = (envelope: EventEnvelope): void => {
      if (!this.#closing.signal.aborted) this.#listener.entry({ sequence, envelope });
    };
    return handOn(() => decodeEnvelopeRecord(topic, bufferOf(data)), tell, onProblem);
  }

  #skipTo(sequence: number): void {
    const expected = this.#cursor;
    this.#cursor = sequence;
    try {
      this.#listener.gap(expected, sequence);
    } catch (problem) {
      this.#options.onProblem(problem);
    }
  }
}
