import type { Clock } from '../../../clock/index.ts';
import type { NatsClient } from '../../nats/index.ts';
import type { RecordCodec } from '../../record-codec.ts';
import { encodeEnvelopeRecord } from '../envelope-codec.ts';
import type { EventPublisher, EventTransport } from '../types.ts';

export interface NatsPublisherOptions {
  readonly client: NatsClient;
  readonly subject: string;
  /** What the subjects of the scope begin with. */
  readonly prefix: string;
  readonly topic: string;
  readonly publisherId: string;
  readonly codec: RecordCodec;
  readonly clock: Clock;
}

/** One publisher of a subject. What the client refuses is counted; subscribers see the gap. */
export class NatsPublisher implements EventPublisher {
  readonly publisherId: string;
  readonly transport: EventTransport;
  readonly #options: NatsPublisherOptions;
  #sequence = 0;
  #dropped = 0;
  #isClosed = false;

  constructor(options: NatsPublisherOptions) {
    this.#options = options;
    this.publisherId = options.publisherId;
    this.transport = { kind: 'Nats', config: { subject_prefix: options.prefix } };
  }

  get dropped(): number {
    return this.#dropped;
  }

  publish(payload: unknown): void {
    if (this.#isClosed) return;
    const { client, subject, topic, publisherId, codec, clock } = this.#options;
    const sequence = this.#sequence++;
    try {
      const event = { topic, publisherId, sequence, publishedAtMs: clock.wallMs(), payload };
      if (!client.publish(subject, encodeEnvelopeRecord(codec, event))) this.#dropped++;
    } catch {
      this.#dropped++; // a payload that cannot be encoded
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }
}
