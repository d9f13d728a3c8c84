import { TraceFlags } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider, type LogRecordExporter } from '@opentelemetry/sdk-logs';
import { BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { Clock } from '../../clock/index.ts';
import type { LineWriter } from '../log/lines.ts';
import type { Logger } from '../log/logger.ts';
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
const FLUSH_MS_MAX = 1000;
const CLOSE_MS_MAX = 3000;
const LIMITS = { exportTimeoutMillis: EXPORT_MS_MAX, maxQueueSize: QUEUE_MAX } as const;

/** Loads the exporters of the protocols that are asked for, and no other. */
export async function openOtlp({ traces, logs, serviceName, clock, logger }: OtlpOptions): Promise<OtlpExport> {
  const resource = resourceFromAttributes({ 'service.name': serviceName });
  const spanExporter = watchExporter(await openSpanExporter(traces), 'traces', logger);
  const spanBatches = new BatchSpanProcessor({ exporter: spanExporter, ...LIMITS });
  const logExporter = watchExporter(await openLogExporter(logs), 'logs', logger);
  const lineBatches = new BatchLogRecordProcessor({ exporter: logExporter, ...LIMITS });
  const provider = new LoggerProvider({ resource, processors: [lineBatches] });
  const settle = async (msMax: number, ...both: readonly Promise<void>[]): Promise<void> => {
    const sent = Promise.allSettled(both); // what failed was told by the exporter
    const late = new AbortController();
    await Promise.race([sent, clock.sleep(msMax, late.signal).catch(() => undefined)]);
    late.abort();
  };
  return {
    spans: {
      ended(span) {
        if ((span.context.traceFlags & TraceFlags.SAMPLED) !== 0) spanBatches.onEnd(toReadableSpan(span, resource));
      },
    },
    lines: exportLines(provider),
    flush: () => settle(FLUSH_MS_MAX, spanBatches.forceFlush(), lineBatches.forceFlush()),
    close: () => settle(CLOSE_MS_MAX, spanBatches.shutdown(), lineBatches.shutdown()),
  };
}

async function openSpanExporter({ protocol, url }: OtlpTarget): Promise<SpanExporter> {
  const options = { url, timeoutMillis: EXPORT_MS_MAX };
  if (protocol === 'grpc') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc');
    return new OTLPTraceExporter(options);
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter(options);
}

async function openLogExporter({ protocol, url }: OtlpTarget): Promise<LogRecordExporter> {
  const options = { url, timeoutMillis: EXPORT_MS_MAX };
  if (protocol === 'grpc') {
    const { OTLPLogExporter } = await import('@opentelemetry/exporter-logs-otlp-grpc');
    return new OTLPLogExporter(options);
  }
  const { OTLPLogExporter } = await import('@opentelemetry/exporter-logs-otlp-proto');
  return new OTLPLogExporter(options);
}
