import { type BodyIntake, bodyUnreadable } from '../bodies/body-intake.ts';
import type { HostExchange } from './exchange.ts';
import { WebFrameSink } from './web-sink.ts';

/** The exchange of a plain fetch handler: reads from a `Request`, responds with `response`. */
export class WebExchange implements HostExchange {
  readonly sink: WebFrameSink;
  readonly peer: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly #request: Request;

  /** @param peer address that the request came from, where the host knows it */
  constructor(request: Request, peer?: string) {
    this.#request = request;
    this.peer = peer;
    this.method = request.method;
    this.sink = new WebFrameSink(request.method !== 'HEAD', request.signal);
    const { pathname, search } = new URL(request.url);
    this.path = pathname;
    this.query = search.slice(1);
  }

  /** Resolves with the first bytes of the body. */
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

  async readBody(intake: BodyIntake): Promise<void> {
    const { body } = this.#request;
    if (body === null) return;
    const reader = body.getReader();
    for (;;) {
      const next = await reader.read().catch((error: unknown) => {
        throw bodyUnreadable(error);
      });
      if (next.done) return;
      try {
        intake.add(next.value);
      } catch (thrown) {
        await reader.cancel(thrown).catch(() => {}); // nobody reads the rest, however that ends
        throw thrown;
      }
    }
  }
}
