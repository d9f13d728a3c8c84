import type { HeaderMap } from '../../grpc/index.ts';

/** The head of a request or a response, as Envoy tells it. Names are lower-case. */
export class RequestHead {
  readonly lines: number;
  readonly #values = new Map<string, string>();

  constructor(map: HeaderMap | undefined) {
    const headers = map?.headers ?? [];
    this.lines = headers.length;
    for (const { key, value, rawValue } of headers) {
      const name = key.toLowerCase();
      // The first line of a name counts, as in the other hosts.
      if (!this.#values.has(name)) this.#values.set(name, rawValue.length > 0 ? latin1(rawValue) : value);
    }
  }

  get method(): string {
    return (this.get(':method') ?? '').toUpperCase();
  }

  /** Path without the query. */
  get path(): string {
    return this.#target.split('?', 1)[0] as string; // a split has at least one part
  }

  /** Text after the `?`, without it. */
  get query(): string {
    const at = this.#target.indexOf('?');
    return at < 0 ? '' : this.#target.slice(at + 1);
  }

  get #target(): string {
    return this.get(':path') ?? '/';
  }

  /** Returns the names without those of HTTP/2. */
  names(): readonly string[] {
    return [...this.#values.keys()].filter((name) => !name.startsWith(':'));
  }

  get(name: string): string | undefined {
    return this.#values.get(name) ?? (name === 'host' ? this.#values.get(':authority') : undefined);
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
