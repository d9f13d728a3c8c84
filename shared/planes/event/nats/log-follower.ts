import type { Clock, Random } from '../../../clock/index.ts';
import { untilAborted } from '../../../concurrency/index.ts';
import type { NatsStream, NatsStreamFacts, NatsStreamReader } from '../../nats/index.ts';
import type { EventEnvelope, EventLogFollower, EventLogListener } from '../types.ts';
import { InOrder } from './in-order.ts';

const RETRY_MS = 100;
const RETRY_GROWTH_MAX = 50;

export interface LogFollowerOptions {
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
      const pauseMs = RETRY_MS * Math.min(2 ** this.#failures, RETRY_GROWTH_MAX) * (0.5 + random.next());
      await clock.sleep(pauseMs, signal).catch(() => {}); // closed: the loop ends
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
