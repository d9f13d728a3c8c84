import type { TimeAndChance } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { tellUntold } from './log/repeats.ts';
import type { ProcessLogger } from './log/types.ts';
import { countDroppedTelemetry, type MetricRegistry } from './metrics/registry.ts';
import { logSpans, Tracer } from './tracing.ts';

/** The traces of a process, and its log lines on their way to a collector. */
export interface Telemetry {
  /** Undefined when spans are off. */
  readonly tracer: Tracer | undefined;
  /** Sends what waits, in bounded time; for hosts that are frozen afterwards. */
  flush(): Promise<void>;
  /** Sends what waits, in bounded time, and ends. */
  close(): Promise<void>;
}

const NONE: Telemetry = { tracer: undefined, flush: async () => {}, close: async () => {} };

/**
 * The code that exports is loaded only on request. From then on the lines of `logger` are exported, too.
 *
 * @param registry counts the records that no collector gets
 */
export async function openTelemetry(
  settings: FleetSettings,
  { clock, random }: TimeAndChance,
  logger: ProcessLogger,
  registry: MetricRegistry | undefined,
): Promise<Telemetry> {
  const { otelTracesExporter, otelLogsExporter, loggingSpanEvents } = settings;
  const isOn = settings.otelExportEnabled && !settings.otelSdkDisabled;
  const sends = { spans: isOn && otelTracesExporter === 'otlp', lines: isOn && otelLogsExporter === 'otlp' };
  const isExported = sends.spans || sends.lines;
  if (!isExported && !loggingSpanEvents) return NONE;
  const otlp = isExported ? await openExport(settings, { clock, random }, logger, registry) : undefined;
  if (otlp !== undefined && sends.lines) logger.mirrorTo(otlp.lines);
  const spanSinks = [
    ...(loggingSpanEvents ? [logSpans(logger.for('spans'))] : []),
    ...(otlp !== undefined && sends.spans ? [otlp.spans] : []),
  ];
  if (spanSinks.length === 0) return { ...NONE, ...otlp };
  const tracer = new Tracer({
    clock,
    random,
    sampler: settings.otelTracesSampler,
    sampleRatio: settings.otelTracesSamplerArg,
    sinks: spanSinks,
  });
  return { ...NONE, ...otlp, tracer };
}

async function openExport(
  settings: FleetSettings,
  { clock, random }: TimeAndChance,
  logger: ProcessLogger,
  registry: MetricRegistry | undefined,
) {
  const { openOtlp, otlpTargets } = await import('./otlp/open-otlp.ts');
  const otlp = await openOtlp({
    ...otlpTargets(settings),
    exportMsMax: settings.otelExporterOtlpTimeoutMs,
    spanDelayMs: settings.otelBspScheduleDelayMs,
    lineDelayMs: settings.otelBlrpScheduleDelayMs,
    attributes: {
      'service.instance.id': random.uuid(),
      ...settings.otelResourceAttributes,
      'service.name': settings.otelServiceName,
    },
    clock,
    logger: logger.for('telemetry'),
    onDropped: registry && countDroppedTelemetry(registry),
  });
  const close = (): Promise<void> => {
    tellUntold(); // the collector's last chance to hear of it
    return otlp.close();
  };
  return { ...otlp, close };
}
