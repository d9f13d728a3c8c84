import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** A value in the JSON of OTLP. */
type OtlpValue =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly arrayValue: { readonly values?: readonly OtlpValue[] } };

interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}

/** A span as the collector passes it on. */
export interface CollectedSpan {
  readonly resource: Readonly<Record<string, unknown>>;
  readonly scope: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Keys of attributes that came more than once, or without a value. */
  readonly oddKeys: readonly string[];
  readonly status: { readonly code?: number; readonly message?: string };
  readonly links: readonly string[];
  readonly durationNs: bigint;
}

/** The OpenTelemetry Collector, and its output. */
export interface OtelCollector {
  readonly grpcUrl: string;
  readonly httpUrl: string;
  readonly spans: readonly CollectedSpan[];
  /** Log records. */
  readonly lines: readonly { readonly body: unknown; readonly traceId: string; readonly spanId: string }[];
  stop(): Promise<void>;
}

/** Whether the set-up found or made a collector. */
export function hasOtelCollector(): boolean {
  return Boolean(process.env.STATOR_TEST_OTELCOL);
}

const KINDS = { 1: 'internal', 2: 'server', 3: 'client' } as const;

/** Starts a collector on loopback. It passes everything that it received on to the suite as JSON. */
export async function startOtelCollector(): Promise<OtelCollector> {
  const binary = process.env.STATOR_TEST_OTELCOL;
  if (!binary) throw new Error('STATOR_TEST_OTELCOL is not set: run through vitest, whose set-up builds the collector');
  const spans: CollectedSpan[] = [];
  const lines: OtelCollector['lines'][number][] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body: unknown = JSON.parse(Buffer.concat(parts).toString('utf8'));
    if (request.url === '/v1/traces') spans.push(...spansOf(body as OtlpTraces));
    else lines.push(...linesOf(body as OtlpLogs));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const folder = await mkdtemp(join(tmpdir(), 'stator-otelcol-'));
  const [grpcPort, httpPort] = [await freePort(), await freePort()];
  await writeFile(join(folder, 'config.yaml'), configuration(grpcPort, httpPort, port));
  const collector = spawnProgram(binary, ['--config', join(folder, 'config.yaml')]);
  const stop = async (): Promise<void> => {
    await collector.kill();
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true, force: true });
  };
  await waitUntil(() => collector.stderr().includes('Everything is ready'), { timeoutMs: 30_000 }).catch(
    async (error: Error) => {
      await stop();
      throw new Error(`${error.message}\n${collector.stderr()}`);
    },
  );
  return { spans, lines, stop, grpcUrl: `http://127.0.0.1:${grpcPort}`, httpUrl: `http://127.0.0.1:${httpPort}` };
}

function configuration(grpcPort: number, httpPort: number, to: number): string {
  const pipeline = '{ receivers: [otlp], exporters: [otlp_http] }';
  return `
receivers:
  otlp:
    protocols:
      grpc: { endpoint: "127.0.0.1:${grpcPort}" }
      http: { endpoint: "127.0.0.1:${httpPort}" }
exporters:
  otlp_http: { endpoint: "http://127.0.0.1:${to}", encoding: json, compression: none }
service:
  telemetry: { metrics: { level: none } }
  pipelines: { traces: ${pipeline}, logs: ${pipeline} }
`;
}

interface Attributed {
  readonly attributes?: readonly OtlpAttribute[];
}

interface OtlpSpan extends Attributed {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: 1 | 2 | 3;
  readonly status: CollectedSpan['status'];
  readonly links?: readonly { readonly spanId: string }[];
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

interface OtlpTraces {
  readonly resourceSpans: readonly {
    readonly resource: Attributed;
    readonly scopeSpans: readonly { readonly scope: { readonly name: string }; readonly spans: readonly OtlpSpan[] }[];
  }[];
}

interface OtlpLogs {
  readonly resourceLogs: readonly {
    readonly scopeLogs: readonly {
      readonly logRecords: readonly {
        readonly body: OtlpValue;
        readonly traceId?: string;
        readonly spanId?: string;
      }[];
    }[];
  }[];
}

function spansOf({ resourceSpans }: OtlpTraces): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) => spans.map((span) => spanOf(span, attributesOf(resource), scope.name))),
  );
}

function spanOf(span: OtlpSpan, resource: CollectedSpan['resource'], scope: string): CollectedSpan {
  const { attributes = [], links = [], parentSpanId = '', startTimeUnixNano, endTimeUnixNano } = span;
  const { name, traceId, spanId, status } = span;
  const keys = attributes.map(({ key }) => key);
  const oddKeys = attributes.flatMap(({ key, value }, at) =>
    keys.indexOf(key) !== at || readValue(value) === undefined ? [key] : [],
  );
  return {
    ...{ resource, scope, name, traceId, spanId, parentSpanId, status, oddKeys },
    kind: KINDS[span.kind],
    attributes: attributesOf({ attributes }),
    links: links.map((link) => link.spanId),
    durationNs: BigInt(endTimeUnixNano) - BigInt(startTimeUnixNano),
  };
}

function linesOf({ resourceLogs }: OtlpLogs): OtelCollector['lines'][number][] {
  const records = resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords));
  return records.map(({ body, traceId = '', spanId = '' }) => ({ body: readValue(body), traceId, spanId }));
}

function attributesOf({ attributes = [] }: Attributed): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]));
}

function readValue(value: OtlpValue): unknown {
  if ('intValue' in value) return Number(value.intValue);
  if ('arrayValue' in value) return value.arrayValue.values?.map(readValue) ?? [];
  return Object.values(value)[0];
}
