import type { Publisher } from 'zeromq';
import type { Clock } from '../../../clock/index.ts';
import type { RecordCodec } from '../../record-codec.ts';
import { encodeEnvelope } from '../envelope-codec.ts';
import type { EventPublisher, EventTransport } from '../types.ts';

export interface ZmqPublisherOptions {
  readonly socket: Publisher;
  /** How subscribers get at the messages. */
  readonly transport: EventTransport;
  /** First frame of the messages: what subscribers and brokers tell them apart by. */
  readonly key: string;
  readonly topic: string;
  readonly publisherId: string;
  readonly codec: RecordCodec;
  readonly clock: Clock;
  readonly onClosed: () => void;
}

/** One PUB socket: what a subscriber cannot take in time is lost for it, and it sees the gap. */
export class ZmqPublisher implements EventPublisher {
  readonly publisherId: string;
  readonly transport: EventTransport;
  readonly #options: ZmqPublisherOptions;
  #sequence = 0;
  #dropped = 0;
  #isClosed = false;

  constructor(options: ZmqPublisherOptions) {
    this.#options = options;
    this.publisherId = options.publisherId;
    this.transport = options.transport;
  }

  get dropped(): number {
    return this.#dropped;
  }

  publish(payload: unknown): void {
    if (this.#isClosed) return;
    const { key, topic, publisherId, codec, clock, socket } = this.#options;
    const sequence = this.#sequence++;
    try {
      const event = { topic, publisherId, sequence, publishedAtMs: clock.wallMs(), payload };
      const frames = encodeEnvelope(codec, event);
      // With a send timeout of 0 the socket takes or refuses a message at once.
      socket.send([key, frames.publisherId, frames.sequence, frames.body]).catch(() => this.#dropped++);
    } catch {
      this.#dropped++; // a payload that cannot be encoded; subscribers see the gap
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.socket.close();
    this.#options.onClosed();
  }
}
