import type { Subscriber } from 'zeromq';
import { SequenceWatch } from '../sequence-watch.ts';
import type { EventListener, EventSubscription, EventTransport } from '../types.ts';
import { EventReader } from './event-reader.ts';

export interface BrokeredSubscriptionOptions {
  readonly socket: Subscriber;
  readonly subject: string;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

/**
 * One SUB socket connected to all brokers. Each of them brings every message; the first that arrives counts. As on the planes
 * without a broker, it hears the publishers it was connected to.
 */
export class BrokeredSubscription implements EventSubscription {
  readonly #options: BrokeredSubscriptionOptions;
  readonly #watch: SequenceWatch;
  readonly #publisherIds = new Set<string>();
  readonly #reader: EventReader;

  constructor(options: BrokeredSubscriptionOptions) {
    this.#options = options;
    this.#watch = new SequenceWatch(options.listener);
    const { socket, subject, topic, onProblem } = options;
    this.#reader = new EventReader({
      socket,
      key: subject,
      topic,
      onProblem,
      event: (envelope) => this.#publisherIds.has(envelope.publisherId) && this.#watch.receive(envelope),
    });
  }

  get missed(): number {
    return this.#watch.missed;
  }

  connect(publisherId: string, transport: EventTransport): void {
    if (transport.kind === 'ZmqBroker') this.#publisherIds.add(publisherId); // one of another plane is not heard here
  }

  disconnect(publisherId: string): void {
    if (this.#publisherIds.delete(publisherId)) this.#watch.forget(publisherId);
  }

  async close(): Promise<void> {
    if (this.#reader.isClosed) return;
    this.#options.onClosed();
    await this.#reader.close();
  }
}
