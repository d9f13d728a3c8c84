import type { Clock, Random } from '../../../clock/index.ts';
import type { NatsStream, NatsStreamFacts, NatsStreamReader } from '../../nats/index.ts';
import { decodeEnvelopeRecord } from '../envelope-codec.ts';
import type {
  EventEnvelope,
  EventLog,
  EventLogEntry,
  EventLogFollower,
  EventLogListener,
  EventLogState,
} from '../types.ts';
import { LogFollower } from './log-follower.ts';
import { bufferOf } from './subscription.ts';

/** A batch of what a stream holds. */
interface StreamPage {
  readonly messages: readonly { readonly sequence: number; readonly data: Uint8Array }[];
  /** Nothing was behind it. */
  readonly isLast: boolean;
  /** The reader is gone; nothing follows. */
  readonly isLost: boolean;
}

export interface NatsEventLogOptions {
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

function anotherLog(): Error {
  return new Error('the event log was created anew: its sequences are not those known here; read its state again');
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
    const onAbort = (): void => this.#turn(false, true);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await page;
    } finally {
      signal.removeEventListener('abort', onAbort);
      signal.throwIfAborted();
    }
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
