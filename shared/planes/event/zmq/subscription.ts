import type { Subscriber } from 'zeromq';
import { SequenceWatch } from '../sequence-watch.ts';
import type { EventListener, EventSubscription, EventTransport } from '../types.ts';
import { EventReader } from './event-reader.ts';

interface BrokeredSubscriptionOptions {
  readonly socket: Subscriber;
  readonly subject: string;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

export interface ZmqSubscriptionOptions {
  readonly socket: Subscriber;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

/** One SUB socket connected to every publisher that it follows. */
export class ZmqSubscription implements EventSubscription {
  readonly #options: ZmqSubscriptionOptions;
  readonly #watch: SequenceWatch;
  readonly #endpointOf = new Map<string, string>();
  readonly #reader: EventReader;

  constructor(options: ZmqSubscriptionOptions) {
    this.#options = options;
    this.#watch = new SequenceWatch(options.listener);
    const { socket, topic, onProblem } = options;
    this.#reader = new EventReader({
      socket,
      key: topic,
      topic,
      onProblem,
      event: (envelope) => this.#endpointOf.has(envelope.publisherId) && this.#watch.receive(envelope),
    });
  }

  get missed(): number {
    return this.#watch.missed;
  }

  connect(publisherId: string, transport: EventTransport): void {
    if (this.#reader.isClosed || transport.kind !== 'Zmq') return; // a publisher of another plane: nothing to follow here
    const { endpoint } = transport.config;
    if (this.#endpointOf.get(publisherId) === endpoint) return;
    this.disconnect(publisherId);
    const isConnected = this.#hasEndpoint(endpoint);
    this.#endpointOf.set(publisherId, endpoint);
    if (!isConnected) this.#connect(publisherId, endpoint);
  }

  /** An endpoint that is none is told of: the others are followed all the same. */
  #connect(publisherId: string, endpoint: string): void {
    try {
      this.#options.socket.connect(endpoint);
    } catch (problem) {
      this.#endpointOf.delete(publisherId);
      this.#options.onProblem(problem);
    }
  }

  disconnect(publisherId: string): void {
    const endpoint = this.#endpointOf.get(publisherId);
    if (endpoint === undefined) return;
    this.#endpointOf.delete(publisherId);
    this.#watch.forget(publisherId);
    if (!this.#reader.isClosed && !this.#hasEndpoint(endpoint)) this.#options.socket.disconnect(endpoint);
  }

  async close(): Promise<void> {
    if (this.#reader.isClosed) return;
    this.#options.onClosed();
    await this.#reader.close();
  }

  #hasEndpoint(endpoint: string): boolean {
    for (const known of this.#endpointOf.values()) if (known === endpoint) return true;
    return false;
  }
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
