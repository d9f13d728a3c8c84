import { describe, expect, it } from 'vitest';
import { WebFrameSink } from '../../../shared/frontends/fetch/web-exchange.ts';
import {
  type FrameSinkHost,
  itKeepsTheFrameSinkContract,
  type OpenSink,
  type SinkClient,
} from './frame-sink.contract.ts';

describe('FrameSink over a web stream', () => {
  itKeepsTheFrameSinkContract(() => webHost);

  it('is closed from the start when the client left before it was made', async () => {
    const sink = new WebFrameSink(true, AbortSignal.abort());
    expect(sink.closed.aborted).toBe(true);
    await sink.response; // nobody waits for ever
  });
});

const webHost: FrameSinkHost = {
  seesClientLeave: true,
  keepsWritesTogether: true,
  async open(): Promise<OpenSink> {
    const request = new AbortController();
    const sink = new WebFrameSink(true, request.signal);
    return { sink, client: new StreamReader(sink.response, request) };
  },
  close: async () => undefined,
};

/** Reads the response as a fetch host would. */
class StreamReader implements SinkClient {
  readonly #pieces: string[] = [];
  readonly #decoder = new TextDecoder();
  readonly #request: AbortController;
  #head: ReturnType<SinkClient['head']>;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #isReading = true;
  #isPumping = false;
  #isComplete = false;

  constructor(response: Promise<Response>, request: AbortController) {
    this.#request = request;
    response.then(
      (arrived) => {
        this.#head = { status: arrived.status, headers: Object.fromEntries(arrived.headers) };
        this.#reader = arrived.body?.getReader();
        this.setReading(this.#isReading);
      },
      () => undefined, // `WebFrameSink.response` never rejects
    );
  }

  pieces(): readonly string[] {
    return this.#pieces;
  }

  head(): ReturnType<SinkClient['head']> {
    return this.#head;
  }

  isComplete(): boolean {
    return this.#isComplete;
  }

  setReading(isReading: boolean): void {
    this.#isReading = isReading;
    if (isReading && !this.#isPumping) this.#pump().catch(() => undefined); // the test looks at what arrived
  }

  leave(): void {
    this.#isReading = false;
    if (this.#reader === undefined) this.#request.abort();
    else this.#reader.cancel().catch(() => undefined); // already closed
  }

  async #pump(): Promise<void> {
    const reader = this.#reader;
    if (reader === undefined) return;
    this.#isPumping = true;
    while (this.#isReading && !this.#isComplete) {
      const { done, value } = await reader.read();
      if (done) this.#isComplete = true;
      else this.#pieces.push(this.#decoder.decode(value, { stream: true }));
    }
    this.#isPumping = false;
  }
}
