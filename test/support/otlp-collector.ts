import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import protobuf from 'protobufjs/minimal.js';

type AttributeValue = string | number | boolean;

/** A received span. Ids are in hex, times in nanoseconds since 1970. */
export interface ReceivedSpan {
  readonly service: AttributeValue | undefined;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a span without a parent. */
  readonly parentSpanId: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  /** Span ids. */
  readonly links: readonly string[];
  /** 2 = error. */
  readonly statusCode: number;
}

/** A received log record. */
export interface ReceivedLine {
  readonly service: AttributeValue | undefined;
  readonly severityText: string;
  readonly body: AttributeValue | undefined;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly traceId: string;
  readonly spanId: string;
}

/** A collector that keeps everything it receives. */
export interface OtlpCollector {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  readonly lines: readonly ReceivedLine[];
  /** Paths of the requests, HTTP or gRPC. */
  readonly paths: readonly string[];
  stop(): Promise<void>;
}

const EXPORTS = {
  traces: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
  logs: '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
} as const;

class Received {
  readonly spans: ReceivedSpan[] = [];
  readonly lines: ReceivedLine[] = [];
  readonly paths: string[] = [];

  take(path: string, body: Buffer): void {
    this.paths.push(path);
    if (/trace/i.test(path)) this.spans.push(...readExport(body, readSpan));
    else this.lines.push(...readExport(body, readLine));
  }
}

/**
 * Starts a collector on loopback.
 * @param port of an earlier collector. @default a free one
 */
export async function startOtlpCollector(protocol: 'grpc' | 'http/protobuf', port = 0): Promise<OtlpCollector> {
  const received = new Received();
  const listening = await (protocol === 'grpc' ? listenGrpc(received, port) : listenHttp(received, port));
  const { spans, lines, paths } = received;
  return { spans, lines, paths, url: `http://127.0.0.1:${listening.port}`, stop: listening.stop };
}

async function listenHttp(received: Received, at: number) {
  const server = createHttpServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    received.take(request.url ?? '', Buffer.concat(parts));
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
  });
  server.listen(at, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { port, stop };
}

async function listenGrpc(received: Received, at: number) {
  const server = new Server();
  for (const path of Object.values(EXPORTS)) {
    const bytes = (message: Buffer): Buffer => message;
    const method = {
      path,
      requestStream: false,
      responseStream: false,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    };
    server.addService(
      { Export: method },
      {
        Export: (call: { request: Buffer }, done: (error: null, answer: Buffer) => void) => {
          received.take(path, call.request);
          done(null, Buffer.alloc(0));
        },
      },
    );
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${at}`, ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return { port, stop: async () => server.forceShutdown() };
}

/** Fields of one message by number, in order. Nested messages are still bytes. */
type Fields = ReadonlyMap<number, readonly (Buffer | bigint)[]>;

const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;

function readFields(message: Buffer): Fields {
  const reader = protobuf.Reader.create(message);
  const fields = new Map<number, (Buffer | bigint)[]>();
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const number = tag >>> 3;
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    switch (tag & 7) {
      case WIRE_VARINT:
        values.push(BigInt(reader.uint64().toString()));
        break;
      case WIRE_FIXED64:
        values.push(message.readBigUInt64LE(reader.pos));
        reader.skip(8);
        break;
      case WIRE_BYTES:
        values.push(Buffer.from(reader.bytes()));
        break;
      default:
        reader.skipType(tag & 7);
    }
  }
  return fields;
}

const bytesOf = (fields: Fields, number: number): readonly Buffer[] =>
  (fields.get(number) ?? []).filter((value) => Buffer.isBuffer(value));
const textOf = (fields: Fields, number: number): string => bytesOf(fields, number)[0]?.toString('utf8') ?? '';
const hexOf = (fields: Fields, number: number): string => bytesOf(fields, number)[0]?.toString('hex') ?? '';
const integerOf = (fields: Fields, number: number): bigint => {
  const [value = 0n] = fields.get(number) ?? [];
  return typeof value === 'bigint' ? value : 0n;
};

/** Reads a resource (1) and scopes (2), whose items are field 2. Spans and lines have the same shape. */
function readExport<Item>(
  message: Buffer,
  readItem: (fields: Fields, service: AttributeValue | undefined) => Item,
): Item[] {
  const items: Item[] = [];
  for (const ofResource of bytesOf(readFields(message), 1).map(readFields)) {
    const [resource] = bytesOf(ofResource, 1).map(readFields);
    const service = resource === undefined ? undefined : readAttributes(resource, 1)['service.name'];
    for (const scope of bytesOf(ofResource, 2).map(readFields)) {
      for (const item of bytesOf(scope, 2)) items.push(readItem(readFields(item), service));
    }
  }
  return items;
}

function readSpan(fields: Fields, service: AttributeValue | undefined): ReceivedSpan {
  const [status] = bytesOf(fields, 15).map(readFields);
  return {
    service,
    name: textOf(fields, 5),
    traceId: hexOf(fields, 1),
    spanId: hexOf(fields, 2),
    parentSpanId: hexOf(fields, 4),
    kind: Number(integerOf(fields, 6)),
    startNs: integerOf(fields, 7),
    endNs: integerOf(fields, 8),
    attributes: readAttributes(fields, 9),
    links: bytesOf(fields, 13).map((link) => hexOf(readFields(link), 2)),
    statusCode: status === undefined ? 0 : Number(integerOf(status, 3)),
  };
}

function readLine(fields: Fields, service: AttributeValue | undefined): ReceivedLine {
  const [body] = bytesOf(fields, 5);
  return {
    service,
    severityText: textOf(fields, 3),
    body: body === undefined ? undefined : readValue(body),
    attributes: readAttributes(fields, 6),
    traceId: hexOf(fields, 9),
    spanId: hexOf(fields, 10),
  };
}

function readAttributes(fields: Fields, number: number): Record<string, AttributeValue> {
  const attributes: Record<string, AttributeValue> = {};
  for (const entry of bytesOf(fields, number).map(readFields)) {
    const value = readValue(bytesOf(entry, 2)[0] ?? Buffer.alloc(0));
    if (value !== undefined) attributes[textOf(entry, 1)] = value;
  }
  return attributes;
}

function readValue(message: Buffer): AttributeValue | undefined {
  const fields = readFields(message);
  if (fields.has(1)) return textOf(fields, 1);
  if (fields.has(2)) return integerOf(fields, 2) === 1n;
  if (fields.has(3)) return Number(integerOf(fields, 3));
  if (!fields.has(4)) return undefined;
  const bits = Buffer.alloc(8);
  bits.writeBigUInt64LE(integerOf(fields, 4));
  return bits.readDoubleLE();
}
