import type { HostileValues } from './hostile-values.ts';

type Schema = Readonly<Record<string, unknown>>;

/** The part of `/openapi.json` that the fuzzer reads. */
export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly requestBody?: unknown }>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** The bytes of one or more requests, and how to send them. */
export interface HostileRequest {
  readonly pieces: readonly Buffer[];
  /** Whether the client leaves after the last piece, without reading. */
  readonly leaves: boolean;
}

const DEPTH_MAX = 5;
const BASES: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hi' }], max_tokens: 3 },
  '/v1/completions': { prompt: 'hi', max_tokens: 3 },
  '/v1/responses': { input: 'hi', max_output_tokens: 3 },
  '/v1/messages': { messages: [{ role: 'user', content: 'hi' }], max_tokens: 3 },
  '/v1/embeddings': { input: 'hi' },
};
const METHODS = ['GET', 'POST', 'POST', 'POST', 'DELETE', 'PUT', 'HEAD', 'OPTIONS', 'PATCH', 'BREW'];
const HEADERS = [
  `x-request-id:${' '.repeat(4000)}\0`,
  ...[
    'x-request-id: a',
    'x-request-id:            \t',
    'accept-encoding: gzip',
    'expect: 100-continue',
    'expect: 9',
    'traceparent: 00-x',
  ],
  ...[
    'content-encoding: gzip',
    'content-encoding: br',
    'content-encoding: x',
    'origin: http://evil.example',
    'x-a: \u00e9',
    'authorization: Bearer',
  ],
  ...[
    'transfer-encoding: chunked',
    'content-length: 3',
    'content-length: -1',
    'connection: upgrade',
    'upgrade: websocket',
    'x\0: 1',
    ': v',
    'te: trailers',
  ],
];

/** Requests for the routes of a document: valid, nearly valid, or far from it. */
export class HostileRequests {
  readonly #document: OpenApi;
  readonly #models: readonly string[];
  readonly #values: HostileValues;

  constructor(document: OpenApi, models: readonly string[], values: HostileValues) {
    this.#document = document;
    this.#models = models;
    this.#values = values;
  }

  next(): HostileRequest {
    const values = this.#values;
    const count = values.chance(0.1) ? 1 + values.random.below(4) : 1;
    const bytes = Buffer.concat(Array.from({ length: count }, (_, at) => this.#request(at === count - 1)));
    const cuts = values.chance(0.15) ? 1 + values.random.below(6) : 1;
    const width = Math.max(1, Math.ceil(bytes.length / cuts));
    const pieces = Array.from({ length: cuts }, (_, at) => bytes.subarray(at * width, (at + 1) * width));
    const leaves = values.chance(0.08);
    return { pieces: leaves ? pieces.slice(0, Math.ceil(cuts / 2)) : pieces, leaves };
  }

  #request(isLast: boolean): Buffer {
    const values = this.#values;
    const [path, operations] = values.one([...Object.entries(this.#document.paths), ...this.#favourites()]);
    const usual = values.one(Object.keys(operations)).toUpperCase();
    const method = values.chance(0.05) ? values.one(METHODS) : usual;
    const target = path.replaceAll(
      /\{\w+\}/g,
      () => encodeURIComponent(Buffer.from(values.text()).toString()).slice(0, 2000) || 'x',
    );
    const body = usual === 'POST' ? this.#body(path, operations) : '';
    const head = [
      `${method} ${values.chance(0.02) ? values.one(['//', '*', '/%E0%A4%A', 'http://x/live']) : target} HTTP/1.1`,
      `host: ${values.chance(0.02) ? values.one(['', 'a b', '[', 'evil.example']) : '127.0.0.1'}`,
      `content-type: ${values.chance(0.03) ? values.one(['text/plain', 'multipart/form-data; boundary=x', '']) : 'application/json'}`,
      ...(values.chance(0.1) ? [values.one(HEADERS)] : []),
      ...(isLast ? ['connection: close'] : []),
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(body)]);
  }

  /** Returns the routes with the most code, which are played more often. */
  #favourites(): [string, Readonly<Record<string, { readonly requestBody?: unknown }>>][] {
    return Object.entries(this.#document.paths).filter(([path]) => Object.hasOwn(BASES, path));
  }

  #body(path: string, operations: Readonly<Record<string, { readonly requestBody?: unknown }>>): string {
    const values = this.#values;
    const schema = findSchema(operations.post?.requestBody);
    const body: Record<string, unknown> = { model: values.one(this.#models), ...BASES[path] };
    const properties = (this.#resolve(schema).properties ?? {}) as Readonly<Record<string, Schema>>;
    for (const name of Object.keys(properties)) {
      if (name !== 'model' && values.chance(0.06)) body[name] = this.#valueOf(properties[name] as Schema, 0);
    }
    while (values.chance(0.35)) body[values.one([...Object.keys(properties), ...Object.keys(body)])] = values.json();
    if (values.chance(0.05)) return JSON.stringify(values.json()) ?? '';
    return values.chance(0.15) ? values.brokenText(body) : JSON.stringify(body);
  }

  /** Returns a value that fits a schema, as far as the schema says. */
  #valueOf(given: Schema, depth: number): unknown {
    const values = this.#values;
    const schema = this.#resolve(given);
    if (depth > DEPTH_MAX || values.chance(0.05)) return values.json();
    const choices = (schema.anyOf ?? schema.oneOf ?? schema.enum) as readonly unknown[] | undefined;
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return values.one(choices ?? [null]);
    if (choices !== undefined && choices.length > 0) return this.#valueOf(values.one(choices) as Schema, depth + 1);
    switch (Array.isArray(schema.type) ? values.one(schema.type as string[]) : schema.type) {
      case 'string':
        return values.text();
      case 'boolean':
        return values.chance(0.5);
      case 'integer':
        return values.random.below(values.chance(0.2) ? 2 ** 31 : 5);
      case 'number':
        return values.random.next();
      case 'array':
        return Array.from({ length: values.random.below(4) }, () =>
          this.#valueOf((schema.items ?? {}) as Schema, depth + 1),
        );
      case 'object': {
        const entries = Object.entries((schema.properties ?? {}) as Readonly<Record<string, Schema>>);
        const required = (schema.required ?? []) as readonly string[];
        const kept = entries.filter(([name]) => required.includes(name) || values.chance(0.3));
        return Object.fromEntries(kept.map(([name, child]) => [name, this.#valueOf(child, depth + 1)]));
      }
      default:
        return values.json();
    }
  }

  #resolve(schema: Schema | undefined): Schema {
    const name = typeof schema?.$ref === 'string' ? schema.$ref.split('/').at(-1) : undefined;
    return (name === undefined ? schema : this.#document.components.schemas[name]) ?? {};
  }
}

function findSchema(requestBody: unknown): Schema | undefined {
  const { content } = (requestBody ?? {}) as {
    readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
  };
  return content?.['application/json']?.schema;
}
