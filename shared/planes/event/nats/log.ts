import type { Clock, Random } from '../../../clock/index.ts';
import { untilAborted } from '../../../concurrency/index.ts';
import type { NatsStream, NatsStreamFacts, NatsStreamReader } from '../../nats/index.ts';
import { decodeEnvelopeRecord } from '../envelope.ts';
import {
  anotherLog,
  type EventEnvelope,
  type EventLog,
  type EventLogEntry,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
} from '../types.ts';
import { bufferOf, InOrder } from './subscription.ts';

const RETRY_MS = 100;
const RETRY_GROWTH_MAX = 50;

/** Time until the next attempt after so many in a row that failed, drawn around a value that doubles up to five seconds. */
export function retryPauseMs(failures: number, random: Random): number {
  return RETRY_MS * Math.min(2 ** failures, RETRY_GROWTH_MAX) * (0.5 + random.next());
}

interface LogFollowerOptions {
  readonly stream: NatsStream;
  readonly fromSequence: number;
  /** Creation of the log that `fromSequence` belongs to; undefined = whichever is there. */
  readonly knownCreatedAt: string | undefined;
  readonly listener: EventLogListener;
  /** Throws, or rejects, for a message that is no event. */
  readonly decode: (data: Uint8Array) => EventEnvelope | Promise<EventEnvelope>;
  readonly clock: Clock;
  readonly random: Random;
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

/**
 * Follows a stream through outages. Its place is a cursor of its own: whatever happens to the server's side, reading goes on
 * from there, and what is no longer there is told as a gap.
 *
 * | Found when (re)opening | Told | Goes on at |
 * |---|---|---|
 * | the same stream, cursor kept | - | cursor |
 * | its first message is behind the cursor | gap(cursor, first) | first |
 * | another creation time | gap(cursor, 1) | 1 |
 * | it ends before the cursor (its tail was lost) | gap(cursor, last + 1) | last + 1 |
 */
export class LogFollower implements EventLogFollower {
  readonly #options: LogFollowerOptions;
  readonly #closing = new AbortController();
  readonly #inOrder: InOrder;
  #cursor: number;
  #createdAt: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #onOpen: (() => void) | undefined;
  #endReading: (() => void) | undefined;

  constructor(options: LogFollowerOptions) {
    this.#options = options;
    this.#inOrder = new InOrder(options.onProblem);
    this.#cursor = options.fromSequence;
    this.#createdAt = options.knownCreatedAt;
  }

  /** Resolves when the stream is open for the first time; closes and rejects when `signal` aborts before. */
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
    this.#endReading?.();
    this.#options.onClosed();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, random, onProblem } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await this.#readUntilLost();
      } catch (error) {
        if (signal.aborted) return;
        this.#failures++;
        onProblem(error);
      }
      await clock.sleep(retryPauseMs(this.#failures, random), signal).catch(() => {}); // closed: the loop ends
    }
  }

  async #readUntilLost(): Promise<void> {
    const { stream } = this.#options;
    const { signal } = this.#closing;
    const facts = await stream.facts(signal);
    this.#align(facts);
    const lost = new Promise<void>((resolve) => {
      this.#endReading = resolve;
    });
    const endReading = (): void => this.#endReading?.();
    let lastSequence = Number.POSITIVE_INFINITY;
    let isReading = true;
    const reader: NatsStreamReader = await stream.read(
      this.#cursor,
      {
        message: (sequence, data) => this.#receive(sequence, data),
        batchEnded: (isLast) => {
          const isCaughtUp = this.#cursor > lastSequence;
          const goOn = (): void => {
            if (!isReading) return;
            if (isCaughtUp || !isLast) reader.next(isCaughtUp);
            else endReading(); // it was purged meanwhile, or the server has lost count of what is there
          };
          // What is asked for next is not to pile up behind a long event.
          if (this.#inOrder.idle === undefined) goOn();
          else void this.#inOrder.idle.then(goOn);
        },
        lost: endReading,
      },
      signal,
    );
    try {
      const again = await stream.facts(signal); // only now is it sure which stream the reader reads
      if (again.createdAt !== facts.createdAt) return;
      lastSequence = again.lastSequence;
      reader.next(this.#cursor > lastSequence);
      this.#failures = 0;
      this.#onOpen?.();
      await lost;
    } finally {
      isReading = false;
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

  #receive(sequence: number, data: Uint8Array): void {
    if (this.#closing.signal.aborted || sequence < this.#cursor) return;
    if (sequence > this.#cursor) this.#skipTo(sequence);
    this.#cursor = sequence + 1;
    this.#inOrder.push(data.length, {
      read: () => this.#options.decode(data),
      deliver: (envelope) => {
        if (!this.#closing.signal.aborted) this.#options.listener.entry({ sequence, envelope });
      },
    });
  }

  #skipTo(sequence: number): void {
    const expected = this.#cursor;
    this.#cursor = sequence;
    this.#inOrder.push(0, {
      read: () => undefined,
      deliver: () => this.#options.listener.gap(expected, sequence),
    });
  }
}

/** A batch of what a stream holds. */
interface StreamPage {
  readonly messages: readonly { readonly sequence: number; readonly data: Uint8Array }[];
  /** Nothing was behind it. */
  readonly isLast: boolean;
  /** The reader is gone; nothing follows. */
  readonly isLost: boolean;
}

interface NatsEventLogOptions {
  readonly stream: NatsStream;
  readonly topic: string;
  readonly clock: Clock;
  readonly random: Random;
  /** A message that is no event (it is passed over), a listener that threw, a stream that cannot be read for now. */
  readonly onProblem: (problem: unknown) => void;
  /** Those that the plane closes with itself. */
  readonly followers: Set<LogFollower>;
}

/** The log of one subject in its JetStream stream. */
export class NatsEventLog implements EventLog {
  readonly #options: NatsEventLogOptions;
  /** Creation of the log that the caller knows, so that sequences of another one are never taken for its own. */
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
    const { stream } = this.#options;
    const atStart = await stream.facts(signal);
    this.#refuseAnother(atStart);
    let cursor = fromSequence;
    while (cursor <= atStart.lastSequence) {
      const pages = await StreamPages.open(stream, cursor, signal);
      try {
        // Only now is it sure which log the reader reads.
        const facts = await stream.facts(signal);
        if (facts.createdAt !== atStart.createdAt) throw anotherLog();
        for (;;) {
          const page = await pages.next(signal);
          if (page.isLost) break; // and opened again behind what was read
          for (const { sequence, data } of page.messages) {
            if (sequence > atStart.lastSequence) return;
            cursor = sequence + 1;
            const envelope = this.#decode(data);
            const read = envelope instanceof Promise ? await envelope : envelope; // no promise for the short ones
            if (read !== undefined) yield { sequence, envelope: read };
          }
          if (page.isLast || cursor > atStart.lastSequence) return;
        }
      } finally {
        pages.close();
      }
    }
  }

  async follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower> {
    const follower = new LogFollower({
      ...this.#options,
      fromSequence,
      knownCreatedAt: this.#knownCreatedAt,
      listener,
      decode: (data) => decodeEnvelopeRecord(this.#options.topic, bufferOf(data)),
      onClosed: () => this.#options.followers.delete(follower),
    });
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

  /** Undefined for a message that is no event. */
  #decode(data: Uint8Array): EventEnvelope | undefined | Promise<EventEnvelope | undefined> {
    const pass = (problem: unknown): undefined => {
      this.#options.onProblem(problem);
    };
    try {
      const envelope = decodeEnvelopeRecord(this.#options.topic, bufferOf(data));
      return envelope instanceof Promise ? envelope.catch(pass) : envelope;
    } catch (problem) {
      return pass(problem);
    }
  }
}

/** Reads what a stream holds page by page, each asked for when the one before it has been used. */
class StreamPages {
  #reader: NatsStreamReader | undefined;
  #messages: { sequence: number; data: Uint8Array }[] = [];
  #isLost = false;
  #resolve: ((page: StreamPage) => void) | undefined;

  private constructor() {}

  static async open(stream: NatsStream, fromSequence: number, signal: AbortSignal): Promise<StreamPages> {
    const pages = new StreamPages();
    const receiver = {
      message: (sequence: number, data: Uint8Array) => void pages.#messages.push({ sequence, data }),
      batchEnded: (isLast: boolean) => pages.#turn(isLast, false),
      lost: () => pages.#turn(false, true),
    };
    pages.#reader = await stream.read(fromSequence, receiver, signal);
    return pages;
  }

  async next(signal: AbortSignal): Promise<StreamPage> {
    signal.throwIfAborted();
    if (this.#isLost) return { messages: [], isLast: false, isLost: true };
    const page = new Promise<StreamPage>((resolve) => {
      this.#resolve = resolve;
    });
    this.#reader?.next(false);
    return untilAborted(page, signal);
  }

  close(): void {
    this.#reader?.close();
  }

  #turn(isLast: boolean, isLost: boolean): void {
    this.#isLost ||= isLost;
    const messages = this.#messages;
    this.#messages = [];
    this.#resolve?.({ messages, isLast, isLost });
    this.#resolve = undefined;
  }
}
