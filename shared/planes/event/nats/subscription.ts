import type { NatsClient, NatsMessage, NatsSubscription as Subscribed } from '../../nats/index.ts';
import { decodeEnvelopeRecord, EVENT_BYTES_MAX } from '../envelope-codec.ts';
import { SequenceWatch } from '../sequence-watch.ts';
import type { EventListener, EventSubscription, EventTransport } from '../types.ts';

export interface NatsSubscriptionOptions {
  readonly client: NatsClient;
  readonly subject: string;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
}

/** One subscription of a subject; as on the planes without a broker, it hears the publishers it was connected to. */
export class NatsSubscription implements EventSubscription {
  readonly #options: NatsSubscriptionOptions;
  readonly #watch: SequenceWatch;
  readonly #publisherIds = new Set<string>();
  readonly #subscribed: Subscribed;
  #isClosed = false;

  constructor(options: NatsSubscriptionOptions) {
    this.#options = options;
    this.#watch = new SequenceWatch(options.listener);
    this.#subscribed = options.client.subscribe(options.subject, (message) => this.#deliver(message));
  }

  get missed(): number {
    return this.#watch.missed;
  }

  connect(publisherId: string, transport: EventTransport): void {
    if (transport.kind === 'Nats') this.#publisherIds.add(publisherId); // one of another plane is not heard here
  }

  disconnect(publisherId: string): void {
    if (this.#publisherIds.delete(publisherId)) this.#watch.forget(publisherId);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#subscribed.unsubscribe();
  }

  #deliver({ data }: NatsMessage): void {
    if (this.#isClosed) return;
    try {
      if (data.length > EVENT_BYTES_MAX) throw new RangeError(`an event of ${data.length} bytes`);
      const event = decodeEnvelopeRecord(this.#options.topic, bufferOf(data));
      if (this.#publisherIds.has(event.publisherId)) this.#watch.receive(event);
    } catch (problem) {
      this.#options.onProblem(problem); // the stream of events goes on
    }
  }
}

/** The same memory as a `Buffer`. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
