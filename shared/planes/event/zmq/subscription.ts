import type { Subscriber } from 'zeromq';
import { endOfTurn } from '../../../concurrency/index.ts';
import { decodeEnvelope, SequenceWatch } from '../envelope.ts';
import type { EventEnvelope, EventListener, EventSubscription, EventTransport } from '../types.ts';
import { connectTo } from './brokers.ts';

interface ZmqSubscriptionOptions {
  readonly kind: EventTransport['kind'];
  readonly socket: Subscriber;
  /** First frame of the wanted messages. */
  readonly key: string;
  readonly topic: string;
  /**
   * Whether it also follows publishers that it is not connected to, as soon as it hears them. @default false
   */
  readonly followsAll?: boolean;
  readonly listener: EventListener;
  /** Called for a message that is not an event, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
  readonly onClosed: () => void;
}

/** Messages read before the rest of the process gets a turn: waiting messages are received without one. */
const TURN_BYTES = 128 << 10;
const MESSAGE_COST_BYTES = 1024;
/** Bound of the publishers that a subscription follows because it has heard them. */
const HEARD_MAX = 4096;
/** Transport of such a publisher: only brokers bring messages of publishers that are not in discovery. */
const HEARD: EventTransport = { kind: 'ZmqBroker', config: { xsub_endpoints: [], xpub_endpoints: [] } };

/**
 * Reads one SUB socket until it is closed. If it is connected to several brokers, each of them brings every message;
 * the first that arrives counts.
 */
export class ZmqSubscription extends SequenceWatch implements EventSubscription {
  readonly #options: ZmqSubscriptionOptions;
  readonly #key: Buffer;
  readonly #reading: Promise<void>;
  /** Publishers that it follows because it has heard them; the last one heard is the last here. */
  readonly #heard = new Set<string>();

  constructor(options: ZmqSubscriptionOptions) {
    super(options.kind, options.listener, options.onProblem);
    this.#options = options;
    this.#key = Buffer.from(options.key);
    options.socket.subscribe(options.key);
    this.#reading = this.#read();
  }

  /** Closes the socket. Nothing is delivered afterwards. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.endWatch();
    this.#options.onClosed();
    this.#options.socket.close();
    await this.#reading;
  }

  override receive(envelope: EventEnvelope): void {
    if (this.#options.followsAll === true) this.#follow(envelope.publisherId);
    super.receive(envelope);
  }

  /** Follows a publisher, and forgets the one that was silent for longest if there are too many. */
  #follow(publisherId: string): void {
    this.#heard.delete(publisherId);
    this.#heard.add(publisherId);
    this.connect(publisherId, HEARD);
    if (this.#heard.size <= HEARD_MAX) return;
    for (const silent of this.#heard) {
      this.#heard.delete(silent);
      this.disconnect(silent);
      return;
    }
  }

  async #read(): Promise<void> {
    let turnBytes = 0;
    while (!this.isClosed) {
      if (turnBytes > TURN_BYTES) {
        await endOfTurn();
        turnBytes = 0;
      }
      let frames: Buffer[];
      try {
        frames = await this.#options.socket.receive();
      } catch (error) {
        if (!this.isClosed) this.#options.onProblem(error);
        return; // closed, or broken for good: receive() has no time limit that could pass
      }
      turnBytes += frames.reduce((sum, frame) => sum + frame.length, MESSAGE_COST_BYTES);
      const long = this.#deliver(frames);
      if (long !== undefined) await long; // later messages wait in the socket
    }
  }

  /** Delivers an event; a long one is delivered once the promise resolves, which never rejects. */
  #deliver(frames: readonly Buffer[]): Promise<void> | undefined {
    const [key, publisherId, sequence, body] = frames;
    // A SUB socket matches keys by prefix.
    if (this.isClosed || key?.equals(this.#key) !== true) return undefined;
    return this.hear(() => {
      if (publisherId !== undefined && sequence !== undefined && body !== undefined)
        return decodeEnvelope(this.#options.topic, { publisherId, sequence, body });
      throw new RangeError(`an event of ${frames.length} frames`);
    });
  }
}

/** One SUB socket, connected to every publisher that it follows. */
export class DirectZmqSubscription extends ZmqSubscription {
  readonly #socket: Subscriber;
  readonly #onProblem: (problem: unknown) => void;
  readonly #endpointOf = new Map<string, string>();

  constructor(options: ZmqSubscriptionOptions) {
    super(options);
    this.#socket = options.socket;
    this.#onProblem = options.onProblem;
  }

  override connect(publisherId: string, transport: EventTransport): void {
    if (this.isClosed || transport.kind !== 'Zmq') return; // a publisher of another plane cannot be followed here
    const { endpoint } = transport.config;
    if (this.#endpointOf.get(publisherId) === endpoint) return;
    this.disconnect(publisherId);
    try {
      if (!this.#hasEndpoint(endpoint)) connectTo(endpoint, this.#socket);
    } catch (problem) {
      this.#onProblem(problem); // an invalid endpoint is reported; the others are still followed
      return;
    }
    this.#endpointOf.set(publisherId, endpoint);
    super.connect(publisherId, transport);
  }

  override disconnect(publisherId: string): void {
    const endpoint = this.#endpointOf.get(publisherId);
    if (endpoint === undefined) return;
    this.#endpointOf.delete(publisherId);
    super.disconnect(publisherId);
    if (!this.isClosed && !this.#hasEndpoint(endpoint)) this.#socket.disconnect(endpoint);
  }

  #hasEndpoint(endpoint: string): boolean {
    for (const known of this.#endpointOf.values()) if (known === endpoint) return true;
    return false;
  }
}
