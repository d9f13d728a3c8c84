/**
 * Sends spans and log lines to an OpenTelemetry collector. Loaded only by processes that export, since the SDK is
 * large. Both queues are bounded and nothing waits for the collector; what it does not take is lost, with one line an
 * outage.
 */
import {
  type Attributes,
  type HrTime,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { defaultResource, type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs';
import { BatchSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Clock } from '../../clock/index.ts';
import type { FleetSettings } from '../../config/index.ts';
import { hideSecretText, type LineWriter, type LogLevel, toLoggable } from '../log/lines.ts';
import type { Logger } from '../log/types.ts';
import type { TelemetryDropped } from '../metrics/registry.ts';
import type { Span, SpanSink } from '../tracing.ts';

/** How one signal is sent. */
interface OtlpTarget {
  readonly protocol: 'grpc' | 'http/protobuf';
  /** With gRPC the address of the collector; with http/protobuf the whole URL, path included. */
  readonly url: string;
}

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

const SCOPE = { name: 'stator' };

/** Severity numbers of OpenTelemetry. */
const SEVERITY = { error: 17, warn: 13, info: 9, debug: 5 } as const satisfies Record<LogLevel, number>;

export interface OtlpOptions {
  readonly traces: OtlpTarget;
  readonly logs: OtlpTarget;
  /** Attributes of this process on everything that is sent: `service.name`, and what operators add. */
  readonly attributes: Readonly<Record<string, string>>;
  /** A collector that answers later than this has not got the batch. @default 5 s */
  readonly exportMsMax?: number;
  /** How long a span waits for others. @default 5 s */
  readonly spanDelayMs?: number;
  /** How long a line waits for others. @default 1 s */
  readonly lineDelayMs?: number;
  readonly clock: Clock;
  /** Hears of outages. */
  readonly logger: Logger;
  /** Hears of what no collector gets. @default it is not counted */
  readonly onDropped?: TelemetryDropped | undefined;
}

/** Spans and log lines on their way to a collector. */
export interface OtlpExport {
  /** Takes the sampled ones. */
  readonly spans: SpanSink;
  readonly lines: LineWriter;
  /** Sends what has not been sent, for a second at most. Never rejects. */
  flush(): Promise<void>;
  /** Sends what has not been sent, for three seconds at most, and ends. Never rejects. */
  close(): Promise<void>;
}

/** Spans, and lines, that wait; more are dropped. */
const QUEUE_MAX = 2048;
const FLUSH_MS_MAX = 1000;
const CLOSE_MS_MAX = 3000;
/** Time for a batch beyond the exporter's own limit, which ends only a collector that says nothing at all. */
const GRACE_MS = 1000;

/** Loads the exporters of the protocols that are asked for, and no other. */
export async function openOtlp(options: OtlpOptions): Promise<OtlpExport> {
  const { traces, logs, attributes, clock, logger, onDropped = () => {} } = options;
  const { exportMsMax: timeoutMillis = 5000, spanDelayMs = 5000, lineDelayMs = 1000 } = options;
  const limits = { exportTimeoutMillis: timeoutMillis + GRACE_MS, maxQueueSize: QUEUE_MAX };
  const resource = defaultResource().merge(resourceFromAttributes(attributes));
  const watched = (signal: string, kind: 'spans' | 'lines') => ({
    signal,
    logger,
    queueMax: QUEUE_MAX,
    clock,
    exportMsMax: timeoutMillis + GRACE_MS,
    onDropped: (count: number) => onDropped(kind, count),
  });
  const spanExporter = new (await exportersOf(traces)).OTLPTraceExporter({ url: traces.url, timeoutMillis });
  const spans = watchExporter(spanExporter, watched('traces', 'spans'));
  const spanBatches = new BatchSpanProcessor({
    exporter: spans.exporter,
    scheduledDelayMillis: spanDelayMs,
    ...limits,
  });
  const lineExporter = new (await exportersOf(logs)).OTLPLogExporter({ url: logs.url, timeoutMillis });
  const lines = watchExporter(lineExporter, watched('logs', 'lines'));
  const lineBatches = new BatchLogRecordProcessor({
    exporter: lines.exporter,
    scheduledDelayMillis: lineDelayMs,
    ...limits,
  });
  const provider = new LoggerProvider({ resource, processors: [lineBatches] });
  const settle = async (msMax: number, ...both: readonly Promise<void>[]): Promise<void> => {
    const sent = Promise.allSettled(both); // the exporter reports failures
    const late = new AbortController();
    await Promise.race([sent, clock.sleep(msMax, late.signal).catch(() => undefined)]);
    late.abort();
  };
  const writer = exportLines(provider);
  return {
    spans: {
      ended(span) {
        const isSampled = (span.context.traceFlags & TraceFlags.SAMPLED) !== 0;
        if (isSampled && spans.takes()) spanBatches.onEnd(toReadableSpan(span, resource));
      },
    },
    lines: {
      write(...line) {
        if (lines.takes()) writer.write(...line);
      },
    },
    flush: () => settle(FLUSH_MS_MAX, spanBatches.forceFlush(), lineBatches.forceFlush()),
    close: () => settle(CLOSE_MS_MAX, spanBatches.shutdown(), lineBatches.shutdown()),
  };
}

function exportersOf({ protocol }: OtlpTarget) {
  return protocol === 'grpc' ? import('./grpc-exporters.ts') : import('./http-exporters.ts');
}

/** Log lines as log records: secrets hidden as in the line, and of the span that the line names. */
function exportLines(provider: LoggerProvider): LineWriter {
  const logger = provider.getLogger('stator');
  return {
    write(level, target, message, bindings, _shown, full) {
      const { trace_id: traceId, span_id: spanId, ...plain } = toLoggable(bindings, full);
      const attributes: Record<string, string | number | boolean> = { target };
      for (const name in plain) attributes[name] = attributeOf(plain[name]);
      const isOfSpan = typeof traceId === 'string' && typeof spanId === 'string';
      logger.emit({
        severityNumber: SEVERITY[level],
        severityText: level.toUpperCase(),
        body: hideSecretText(message),
        attributes,
        context: isOfSpan ? trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1 }) : ROOT_CONTEXT,
      });
    },
  };
}

function attributeOf(value: unknown): string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : JSON.stringify(value);
}

/** A finished span as exporters read it. */
function toReadableSpan(span: Span, resource: Resource): ReadableSpan {
  const { context, durationMs = 0, error } = span;
  const { traceId, traceFlags, parentSpanId } = context;
  return {
    name: span.name,
    kind: KINDS[span.kind],
    spanContext: () => context,
    ...(parentSpanId === undefined ? {} : { parentSpanContext: { traceId, spanId: parentSpanId, traceFlags } }),
    startTime: hrTime(span.beganAtMs),
    endTime: hrTime(span.beganAtMs + durationMs),
    duration: hrTime(durationMs),
    ended: true,
    status: { code: error === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR }, // `error.type` says why
    attributes: attributesOf(span),
    links: span.links.map((link) => ({ context: link })),
    events: [],
    resource,
    instrumentationScope: SCOPE,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** Hands a list to the exporters, which do not change it, though their types do not say so. */
function attributesOf({ attributes }: Span): Attributes {
  return attributes as Attributes;
}

/** Seconds and nanoseconds. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

type OtlpSettings = Pick<
  FleetSettings,
  'otelExporterOtlpEndpoint' | 'otelExporterOtlpTracesProtocol' | 'otelExporterOtlpLogsProtocol'
> &
  Partial<Pick<FleetSettings, 'otelExporterOtlpTracesEndpoint' | 'otelExporterOtlpLogsEndpoint'>>;

/** Where traces and logs go: over HTTP, the path of the signal is put behind the general endpoint. */
export function otlpTargets(settings: OtlpSettings): { readonly traces: OtlpTarget; readonly logs: OtlpTarget } {
  const { otelExporterOtlpEndpoint: endpoint } = settings;
  const target = (path: string, own: string | undefined, protocol: OtlpTarget['protocol']) => ({
    protocol,
    url: own ?? (protocol === 'grpc' ? endpoint : endpoint.replace(/\/+$/, '') + path),
  });
  return {
    traces: target('/v1/traces', settings.otelExporterOtlpTracesEndpoint, settings.otelExporterOtlpTracesProtocol),
    logs: target('/v1/logs', settings.otelExporterOtlpLogsEndpoint, settings.otelExporterOtlpLogsProtocol),
  };
}

/** Takes batches, and says what became of them. */
interface Exporter<Item> {
  export(items: Item[], done: (result: ExportResult) => void): void;
  forceFlush?(): Promise<void>;
  shutdown(): Promise<void>;
}

interface ExportResult {
  /** 0 = sent. */
  readonly code: number;
  readonly error?: Error;
}

export interface WatchOptions {
  /** Name of what is exported, in log lines. */
  readonly signal: string;
  readonly logger: Logger;
  /** Items that wait for their batch; more are dropped. */
  readonly queueMax: number;
  readonly clock: Pick<Clock, 'after'>;
  /** A batch of which nothing was heard by then is lost. */
  readonly exportMsMax: number;
  onDropped(count: number): void;
}

export interface WatchedExporter<Item> {
  readonly exporter: Required<Exporter<Item>>;
  /** Whether there is room for one item more, which is handed to its batch then. One that finds none is counted. */
  takes(): boolean;
}

/** `exporter`, which tells when batches are lost and when they go through again: one line an outage. */
export function watchExporter<Item>(exporter: Exporter<Item>, options: WatchOptions): WatchedExporter<Item> {
  const { signal, logger, queueMax, clock, exportMsMax, onDropped } = options;
  let waiting = 0; // the SDK has the same bound, and drops without a number that could be read
  let lost = 0;
  const finished = (items: number, { code, error }: ExportResult): void => {
    if (code !== 0) {
      if (lost === 0) logger.warn('OTLP export fails', { signal, reason: error?.message });
      lost += items;
      onDropped(items);
    } else if (lost > 0) {
      logger.info('OTLP export works again', { signal, lost });
      lost = 0;
    }
  };
  return {
    takes() {
      const hasRoom = waiting < queueMax;
      if (hasRoom) waiting++;
      else onDropped(1);
      return hasRoom;
    },
    exporter: {
      export(items, done) {
        const { length } = items;
        waiting -= length;
        let isOver = false;
        const over = (result: ExportResult): void => {
          if (isOver) return;
          isOver = true;
          late.cancel();
          finished(length, result);
          done(result.code === 0 ? result : { code: result.code }); // told here; the SDK would tell each batch
        };
        const late = clock.after(exportMsMax, () => over({ code: 1, error: new Error('the collector is too slow') }));
        exporter.export(items, over);
      },
      forceFlush: async () => exporter.forceFlush?.(),
      shutdown: () => exporter.shutdown(),
    },
  };
}
