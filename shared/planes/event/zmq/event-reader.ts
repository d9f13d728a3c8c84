import type { Subscriber } from 'zeromq';
import { endOfTurn } from '../../../concurrency/index.ts';
import { decodeEnvelope } from '../envelope-codec.ts';
import type { EventEnvelope } from '../types.ts';

export interface EventReaderOptions {
  readonly socket: Subscriber;
  /** First frame of the messages that are meant. */
  readonly key: string;
  readonly topic: string;
  event(envelope: EventEnvelope): void;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
}

/** Read before the rest of the process has its turn: messages that wait are received without one. */
const TURN_BYTES = 128 << 10;
const MESSAGE_COST_BYTES = 1024;

/** Reads one SUB socket until it is closed. */
export class EventReader {
  readonly #options: EventReaderOptions;
  readonly #key: Buffer;
  readonly #reading: Promise<void>;
  #isClosed = false;

  constructor(options: EventReaderOptions) {
    this.#options = options;
    this.#key = Buffer.from(options.key);
    options.socket.subscribe(options.key);
    this.#reading = this.#read();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Closes the socket. Nothing is delivered afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#options.socket.close();
    await this.#reading;
  }

  async #read(): Promise<void> {
    let turnBytes = 0;
    while (!this.#isClosed) {
      if (turnBytes > TURN_BYTES) {
        await endOfTurn();
        turnBytes = 0;
      }
      let frames: Buffer[];
      try {
        frames = await this.#options.socket.receive();
      } catch (error) {
        if (!this.#isClosed) this.#options.onProblem(error);
        return; // closed, or broken for good: receive() has no time limit that could pass
      }
      turnBytes += frames.reduce((sum, frame) => sum + frame.length, MESSAGE_COST_BYTES);
      const long = this.#deliver(frames);
      if (long !== undefined) await long; // what follows waits in the socket
    }
  }

  /** Delivers an event; a long one is delivered once the promise resolves, which never rejects. */
  #deliver(frames: readonly Buffer[]): Promise<void> | undefined {
    const [key, publisherId, sequence, body] = frames;
    // A SUB socket matches keys by prefix.
    if (this.#isClosed || key?.equals(this.#key) !== true) return undefined;
    try {
      if (publisherId === undefined || sequence === undefined || body === undefined) {
        throw new RangeError(`an event of ${frames.length} frames`);
      }
      const event = decodeEnvelope(this.#options.topic, { publisherId, sequence, body });
      if (event instanceof Promise) return this.#deliverLong(event);
      this.#options.event(event);
    } catch (problem) {
      this.#options.onProblem(problem); // the stream of events goes on
    }
    return undefined;
  }

  async #deliverLong(event: Promise<EventEnvelope>): Promise<void> {
    try {
      const read = await event;
      if (!this.#isClosed) this.#options.event(read);
    } catch (problem) {
      this.#options.onProblem(problem);
    }
  }
}
