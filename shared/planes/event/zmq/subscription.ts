import type { Subscriber } from 'zeromq';
import { decodeEnvelope } from '../envelope-codec.ts';
import { SequenceWatch } from '../sequence-watch.ts';
import type { EventListener, EventSubscription, EventTransport } from '../types.ts';

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
  readonly #reading: Promise<void>;
  #isClosed = false;

  constructor(options: ZmqSubscriptionOptions) {
    this.#options = options;
    this.#watch = new SequenceWatch(options.listener);
    options.socket.subscribe(options.topic);
    this.#reading = this.#read();
  }

  get missed(): number {
    return this.#watch.missed;
  }

  connect(publisherId: string, transport: EventTransport): void {
    if (this.#isClosed || transport.kind !== 'Zmq') return; // a publisher of another plane: nothing to follow here
    const { endpoint } = transport.config;
    if (this.#endpointOf.get(publisherId) === endpoint) return;
    this.disconnect(publisherId);
    const isConnected = this.#hasEndpoint(endpoint);
    this.#endpointOf.set(publisherId, endpoint);
    if (!isConnected) this.#options.socket.connect(endpoint);
  }

  disconnect(publisherId: string): void {
    const endpoint = this.#endpointOf.get(publisherId);
    if (endpoint === undefined) return;
    this.#endpointOf.delete(publisherId);
    this.#watch.forget(publisherId);
    if (!this.#isClosed && !this.#hasEndpoint(endpoint)) this.#options.socket.disconnect(endpoint);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.socket.close();
    this.#options.onClosed();
    await this.#reading;
  }

  #hasEndpoint(endpoint: string): boolean {
    for (const known of this.#endpointOf.values()) if (known === endpoint) return true;
    return false;
  }

  /** Reads until the socket is closed. */
  async #read(): Promise<void> {
    while (!this.#isClosed) {
      let frames: Buffer[];
      try {
        frames = await this.#options.socket.receive();
      } catch (error) {
        if (!this.#isClosed) this.#options.onProblem(error);
        return; // closed, or broken for good: receive() has no time limit that could pass
      }
      this.#deliver(frames);
    }
  }

  #deliver(frames: readonly Buffer[]): void {
    const [topic, publisherId, sequence, body] = frames;
    // A SUB socket matches topics by prefix.
    if (this.#isClosed || topic?.toString('utf8') !== this.#options.topic) return;
    try {
      if (publisherId === undefined || sequence === undefined || body === undefined) {
        throw new RangeError(`an event of ${frames.length} frames`);
      }
      const event = decodeEnvelope(this.#options.topic, { publisherId, sequence, body });
      if (this.#endpointOf.has(event.publisherId)) this.#watch.receive(event);
    } catch (problem) {
      this.#options.onProblem(problem); // the stream of events goes on
    }
  }
}
