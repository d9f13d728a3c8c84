import type { NatsMessage } from '../../nats/messages.ts';
import type { NatsSubscription as Subscribed } from '../../nats/types.ts';
import { decodeEnvelopeRecord, EVENT_BYTES_MAX, SequenceWatch } from '../envelope.ts';
import type { EventListener, EventSubscription } from '../types.ts';

interface NatsSubscriptionOptions {
  readonly subscribe: (receive: (message: Pick<NatsMessage, 'data'>) => void) => Subscribed;
  readonly topic: string;
  readonly listener: EventListener;
  /** Called for a message that is not an event, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
}

/** Bytes that may wait after a long event; further messages are lost, which the sequence of their publisher shows. */
const WAITING_BYTES_MAX = 4 * EVENT_BYTES_MAX;
/** Cost of a waiting message besides its data. */
const WAITING_BYTES_EACH = 256;

/**
 * One subscription of a subject. As on the planes without a broker, it delivers only the publishers that it is
 * connected to.
 */
export class NatsSubscription extends SequenceWatch implements EventSubscription {
  readonly #options: NatsSubscriptionOptions;
  readonly #subscribed: Subscribed;
  /** Messages after a long one, and the bytes of all of them. */
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #isReading = false;

  constructor(options: NatsSubscriptionOptions) {
    super('Nats', options.listener, options.onProblem);
    this.#options = options;
    this.#subscribed = options.subscribe((message) => this.#receive(message.data));
  }

  async close(): Promise<void> {
    this.endWatch();
    this.#subscribed.unsubscribe();
  }

  #receive(data: Uint8Array): void {
    if (data.length > EVENT_BYTES_MAX || this.#waitingBytes > WAITING_BYTES_MAX) {
      const reason = `an event of ${data.length} bytes, behind ${this.#waitingBytes} bytes of others`;
      this.#options.onProblem(new RangeError(reason));
      return;
    }
    if (this.#isReading) {
      this.#waiting.push(data);
      this.#waitingBytes += data.length + WAITING_BYTES_EACH;
      return;
    }
    const long = this.#read(data);
    if (long !== undefined) void this.#readOn(long, data.length); // never rejects
  }

  #read(data: Uint8Array): Promise<void> | undefined {
    return this.hear(() => decodeEnvelopeRecord(this.#options.topic, bufferOf(data)));
  }

  async #readOn(long: Promise<void>, bytes: number): Promise<void> {
    this.#isReading = true;
    this.#waitingBytes += bytes;
    await long;
    this.#waitingBytes -= bytes;
    while (this.#waiting.length > 0) {
      const waited = this.#waiting;
      this.#waiting = []; // removing the first of a long list would move all the others
      for (const data of waited) {
        await this.#read(data);
        this.#waitingBytes -= data.length + WAITING_BYTES_EACH;
      }
    }
    this.#isReading = false;
  }
}

/** Returns the same memory as a `Buffer`. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
