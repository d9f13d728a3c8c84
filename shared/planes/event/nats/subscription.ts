import type { NatsMessage } from '../../nats/messages.ts';
import type { NatsSubscription as Subscribed } from '../../nats/types.ts';
import { decodeEnvelopeRecord, EVENT_BYTES_MAX, SequenceWatch } from '../envelope.ts';
import type { EventListener, EventSubscription } from '../types.ts';

interface NatsSubscriptionOptions {
  readonly subscribe: (receive: (message: Pick<NatsMessage, 'data'>) => void) => Subscribed;
  readonly topic: string;
  readonly listener: EventListener;
  /** A message that is not one, or a listener that threw. */
  readonly onProblem: (problem: unknown) => void;
}

/** Bytes that wait behind a long event; what comes beyond them is lost, which the sequence of its publisher tells. */
const WAITING_BYTES_MAX = 4 * EVENT_BYTES_MAX;
/** What a message that waits takes beside its data. */
const WAITING_BYTES_EACH = 256;

/** One subscription of a subject; as on the planes without a broker, it hears the publishers it was connected to. */
export class NatsSubscription extends SequenceWatch implements EventSubscription {
  readonly #options: NatsSubscriptionOptions;
  readonly #subscribed: Subscribed;
  /** Messages behind a long one, and the bytes of them all. */
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
      this.#waiting = []; // taking the first of a long list moves all the others
      for (const data of waited) {
        await this.#read(data);
        this.#waitingBytes -= data.length + WAITING_BYTES_EACH;
      }
    }
    this.#isReading = false;
  }
}

/** The same memory as a `Buffer`. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
