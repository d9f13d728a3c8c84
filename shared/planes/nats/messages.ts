import type { Msg } from '@nats-io/nats-core';

/** A published message that the server has not confirmed. */
interface KeptMessage {
  readonly subject: string;
  readonly data: Uint8Array;
}

/** Cost of a message besides its bytes. */
const OVERHEAD_BYTES = 128;

/** Published messages in order, oldest first, until the server has confirmed them; bounded in bytes. */
export class KeptMessages {
  #messages: KeptMessage[] = [];
  #bytes = 0;
  readonly #bytesMax: number;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get count(): number {
    return this.#messages.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a message. Returns false if there is no room; then the message is not kept. */
  add(message: KeptMessage): boolean {
    const bytes = costOf(message);
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    this.#messages.push(message);
    return true;
  }

  /** Forgets the `count` oldest. */
  confirm(count: number): void {
    if (count === 0) return;
    for (const message of this.#messages.splice(0, count)) this.#bytes -= costOf(message);
  }

  [Symbol.iterator](): Iterator<KeptMessage> {
    return this.#messages[Symbol.iterator]();
  }
}

function costOf({ data }: KeptMessage): number {
  return data.length + OVERHEAD_BYTES;
}

/** A received message; decodes only the parts that are read. */
export class NatsMessage {
  readonly #message: Msg;

  constructor(message: Msg) {
    this.#message = message;
  }

  get subject(): string {
    return this.#message.subject;
  }

  /** Subject for an answer; '' = none. */
  get reply(): string {
    return this.#message.reply ?? '';
  }

  get data(): Uint8Array {
    return this.#message.data;
  }

  /**
   * Code of a message from the server itself, e.g. 503 = no receiver at the subject of one of our messages; otherwise
   * undefined.
   */
  get status(): number | undefined {
    const code = this.#message.headers?.code ?? 0;
    return code === 0 ? undefined : code;
  }

  /** Words that come with `status`. */
  get statusText(): string {
    return this.#message.headers?.description ?? '';
  }
}
