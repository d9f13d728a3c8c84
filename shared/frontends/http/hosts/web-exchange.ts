import { bodyTooLarge, bodyUnreadable } from '../read-json.ts';
import type { HostExchange } from './exchange.ts';
import { WebFrameSink } from './web-sink.ts';

/** The exchange of a plain fetch handler: reads from a `Request`, answers with `response`. */
export class WebExchange implements HostExchange {
  readonly sink: WebFrameSink;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly #request: Request;

  constructor(request: Request) {
    this.#request = request;
    this.method = request.method;
    this.sink = new WebFrameSink(request.method !== 'HEAD', request.signal);
    const { pathname, search } = new URL(request.url);
    this.path = pathname;
    this.query = search.slice(1);
  }

  /** Resolves with the first bytes of the answer. */
  get response(): Promise<Response> {
    return this.sink.response;
  }

  get headerLines(): number {
    return this.headerNames().length;
  }

  headerNames(): readonly string[] {
    return [...this.#request.headers.keys()];
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined;
  }

  async readBody(limitBytes: number): Promise<Uint8Array> {
    const { body } = this.#request;
    if (body === null) return new Uint8Array(0);
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    try {
      for await (const chunk of body) {
        sizeBytes += chunk.byteLength;
        if (sizeBytes > limitBytes) break;
        chunks.push(chunk);
      }
    } catch (error) {
      throw bodyUnreadable(error);
    }
    if (sizeBytes > limitBytes) throw bodyTooLarge(limitBytes);
    return Buffer.concat(chunks);
  }
}
