import type { Subscriber } from 'zeromq';
import { endOfTurn } from '../../../concurrency/index.ts';
import { decodeEnvelope, SequenceWatch } from '../envelope.ts';
import type { EventEnvelope, EventListener, EventSubscription, EventTransport } from '../types.ts';

interface EventReaderOptions {
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
class EventReader {
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

interface BrokeredSubscriptionOptions {
  readonly socket: Subscriber;
  readonly subject: string;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

interface ZmqSubscriptionOptions {
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
