import type { NatsMessage, NatsSubscription as Subscribed } from '../../nats/index.ts';
import { decodeEnvelopeRecord, EVENT_BYTES_MAX, SequenceWatch } from '../envelope.ts';
import type { EventListener, EventSubscription } from '../types.ts';

interface Delivery<Event> {
  /** A promise for an event that takes several turns to read. */
  read(): Event | Promise<Event>;
  deliver(event: Event): void;
}

/** Hands events on in the order in which they came, at once unless one before them takes several turns to read. */
export class InOrder {
  readonly #onProblem: (problem: unknown) => void;
  #last: Promise<void> | undefined;
  #waitingBytes = 0;

  /** @param onProblem told of what cannot be read, and of a `deliver` that throws */
  constructor(onProblem: (problem: unknown) => void) {
    this.#onProblem = onProblem;
  }

  /** Messages that wait for one before them. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Resolves when nothing waits any more; undefined = nothing does. Never rejects. */
  get idle(): Promise<void> | undefined {
    return this.#last;
  }

  /** @param bytes length of the message, which is kept until its turn comes */
  push<Event>(bytes: number, delivery: Delivery<Event>): void {
    let event: Promise<Event> | undefined;
    if (this.#last === undefined) {
      try {
        const read = delivery.read();
        if (!(read instanceof Promise)) {
          delivery.deliver(read);
          return;
        }
        event = read;
      } catch (problem) {
        this.#onProblem(problem);
        return;
      }
    }
    this.#waitingBytes += bytes;
    const last = this.#follow(this.#last, event, delivery).finally(() => {
      this.#waitingBytes -= bytes;
      if (this.#last === last) this.#last = undefined;
    });
    this.#last = last;
  }

  async #follow<Event>(
    before: Promise<void> | undefined,
    event: Promise<Event> | undefined,
    { read, deliver }: Delivery<Event>,
  ): Promise<void> {
    await before;
    try {
      deliver(await (event ?? read()));
    } catch (problem) {
      this.#onProblem(problem);
    }
  }
}

interface NatsSubscriptionOptions {
  readonly subscribe: (receive: (message: Pick<NatsMessage, 'data'>) => void) => Subscribed;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
}

/** Bytes that wait behind a long event; what comes beyond them is lost, which the sequence of its publisher tells. */
const WAITING_BYTES_MAX = 4 * EVENT_BYTES_MAX;

/** One subscription of a subject; as on the planes without a broker, it hears the publishers it was connected to. */
export class NatsSubscription extends SequenceWatch implements EventSubscription {
  readonly #options: NatsSubscriptionOptions;
  readonly #subscribed: Subscribed;
  readonly #inOrder: InOrder;
  #isClosed = false;

  constructor(options: NatsSubscriptionOptions) {
    super('Nats', options.listener);
    this.#options = options;
    this.#inOrder = new InOrder(options.onProblem);
    this.#subscribed = options.subscribe((message) => this.#deliver(message));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#subscribed.unsubscribe();
  }

  #deliver({ data }: Pick<NatsMessage, 'data'>): void {
    if (this.#isClosed) return;
    if (data.length > EVENT_BYTES_MAX || this.#inOrder.waitingBytes > WAITING_BYTES_MAX) {
      const waiting = this.#inOrder.waitingBytes;
      this.#options.onProblem(new RangeError(`an event of ${data.length} bytes, behind ${waiting} bytes of others`));
      return;
    }
    this.#inOrder.push(data.length, {
      read: () => decodeEnvelopeRecord(this.#options.topic, bufferOf(data)),
      deliver: (event) => {
        if (!this.#isClosed) this.receive(event);
      },
    });
  }
}

/** The same memory as a `Buffer`. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
