import { TraceFlags } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider, type LogRecordExporter } from '@opentelemetry/sdk-logs';
import { BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { Clock } from '../../clock/index.ts';
import type { LineWriter } from '../log/lines.ts';
import type { Logger } from '../log/logger.ts';
import type { TelemetryDropped } from '../metrics/export-metrics.ts';
import type { SpanSink } from '../tracing/span.ts';
import { exportLines } from './log-export.ts';
import { toReadableSpan } from './readable-span.ts';
import type { OtlpTarget } from './settings.ts';
import { watchExporter } from './watched-exporter.ts';

export interface OtlpOptions {
  readonly traces: OtlpTarget;
  readonly logs: OtlpTarget;
  /** `OTEL_SERVICE_NAME` */
  readonly serviceName: string;
  readonly clock: Clock;
  /** Hears of outages. */
  readonly logger: Logger;
  /** Told of what no collector gets. @default nobody is */
  readonly onDropped?: TelemetryDropped | undefined;
}

/** The exporters of one protocol. */
export interface OtlpExporters {
  spans(options: ExporterOptions): SpanExporter;
  lines(options: ExporterOptions): LogRecordExporter;
}

interface ExporterOptions {
  readonly url: string;
  readonly timeoutMillis: number;
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

/** A collector that answers later than this has not got the batch. */
const EXPORT_MS_MAX = 5000;
/** Spans, and lines, that wait; more are dropped. */
const QUEUE_MAX = 2048;
const PATIENCE = { timeoutMillis: EXPORT_MS_MAX } as const;
const FLUSH_MS_MAX = 1000;
const CLOSE_MS_MAX = 3000;
const LIMITS = { exportTimeoutMillis: EXPORT_MS_MAX, maxQueueSize: QUEUE_MAX } as const;

/** Loads the exporters of the protocols that are asked for, and no other. */
export async function openOtlp(options: OtlpOptions): Promise<OtlpExport> {
  const { traces, logs, serviceName, clock, logger, onDropped = () => {} } = options;
  const resource = resourceFromAttributes({ 'service.name': serviceName });
  const watched = { logger, queueMax: QUEUE_MAX };
  const spans = watchExporter((await exportersOf(traces.protocol)).spans({ url: traces.url, ...PATIENCE }), {
    ...watched,
    signal: 'traces',
    onDropped: (count) => onDropped('spans', count),
  });
  const spanBatches = new BatchSpanProcessor({ exporter: spans.exporter, ...LIMITS });
  const lines = watchExporter((await exportersOf(logs.protocol)).lines({ url: logs.url, ...PATIENCE }), {
    ...watched,
    signal: 'logs',
    onDropped: (count) => onDropped('lines', count),
  });
  const lineBatches = new BatchLogRecordProcessor({ exporter: lines.exporter, ...LIMITS });
  const provider = new LoggerProvider({ resource, processors: [lineBatches] });
  const settle = async (msMax: number, ...both: readonly Promise<void>[]): Promise<void> => {
    const sent = Promise.allSettled(both); // what failed was told by the exporter
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

async function exportersOf(protocol: OtlpTarget['protocol']): Promise<OtlpExporters> {
  if (protocol === 'grpc') return (await import('./grpc-exporters.ts')).grpcExporters;
  return (await import('./http-exporters.ts')).httpExporters;
}
