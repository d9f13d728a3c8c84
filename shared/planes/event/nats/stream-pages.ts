import type { NatsStream, NatsStreamReader } from '../../nats/index.ts';

/** A batch of what a stream holds. */
export interface StreamPage {
  readonly messages: readonly { readonly sequence: number; readonly data: Uint8Array }[];
  /** Nothing was behind it. */
  readonly isLast: boolean;
  /** The reader is gone; nothing follows. */
  readonly isLost: boolean;
}

/** Reads what a stream holds page by page, each asked for when the one before it has been used. */
export class StreamPages {
  #reader: NatsStreamReader | undefined;
  #messages: { sequence: number; data: Uint8Array }[] = [];
  #isLost = false;
  #resolve: ((page: StreamPage) => void) | undefined;

  private constructor() {}

  static async open(stream: NatsStream, fromSequence: number, signal: AbortSignal): Promise<StreamPages> {
    const pages = new StreamPages();
    const receiver = {
      message: (sequence: number, data: Uint8Array) => void pages.#messages.push({ sequence, data }),
      batchEnded: (isLast: boolean) => pages.#turn(isLast, false),
      lost: () => pages.#turn(false, true),
    };
    pages.#reader = await stream.read(fromSequence, receiver, signal);
    return pages;
  }

  async next(signal: AbortSignal): Promise<StreamPage> {
    signal.throwIfAborted();
    if (this.#isLost) return { messages: [], isLast: false, isLost: true };
    const page = new Promise<StreamPage>((resolve) => {
      this.#resolve = resolve;
    });
    this.#reader?.next(false);
    const onAbort = (): void => this.#turn(false, true);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await page;
    } finally {
      signal.removeEventListener('abort', onAbort);
      signal.throwIfAborted();
    }
  }

  close(): void {
    this.#reader?.close();
  }

  #turn(isLast: boolean, isLost: boolean): void {
    this.#isLost ||= isLost;
    const messages = this.#messages;
    this.#messages = [];
    this.#resolve?.({ messages, isLast, isLost });
    this.#resolve = undefined;
  }
}
