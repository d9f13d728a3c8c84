import type { Clock, Random } from '../../../clock/index.ts';
import type { NatsStream, NatsStreamFacts } from '../../nats/index.ts';
import { decodeEnvelopeRecord } from '../envelope-codec.ts';
import type { EventLog, EventLogEntry, EventLogFollower, EventLogListener, EventLogState } from '../types.ts';
import { LogFollower } from './log-follower.ts';
import { StreamPages } from './stream-pages.ts';
import { bufferOf } from './subscription.ts';

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
            const entry = this.#entry(sequence, data);
            if (entry !== undefined) yield entry;
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
      toEntry: (sequence, data) => this.#entry(sequence, data),
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

  #entry(sequence: number, data: Uint8Array): EventLogEntry | undefined {
    try {
      return { sequence, envelope: decodeEnvelopeRecord(this.#options.topic, bufferOf(data)) };
    } catch (problem) {
      this.#options.onProblem(problem);
      return undefined;
    }
  }
}

function anotherLog(): Error {
  return new Error('the event log was created anew: its sequences are not those known here; read its state again');
}
