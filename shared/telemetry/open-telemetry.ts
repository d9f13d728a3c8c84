import type { Clock, TimeAndChance } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import type { ProcessLogger } from './log/logger.ts';
import { countDroppedTelemetry, type MetricRegistry } from './metrics/registry.ts';
import { logSpans, Tracer } from './tracing.ts';

/** The traces of a process, and its log lines on their way to a collector. */
export interface Telemetry {
  /** Undefined when nobody wants spans: none are made. */
  readonly tracer: Tracer | undefined;
  /** Sends what waits, in bounded time; for hosts that are frozen afterwards. */
  flush(): Promise<void>;
  /** Sends what waits, in bounded time, and ends. */
  close(): Promise<void>;
}

const NONE: Telemetry = { tracer: undefined, flush: async () => {}, close: async () => {} };

/**
 * The code that exports is loaded only where it is asked for. From then on the lines of `logger` are exported, too.
 *
 * @param registry where what no collector gets is counted
 */
export async function openTelemetry(
  settings: FleetSettings,
  { clock, random }: TimeAndChance,
  logger: ProcessLogger,
  registry: MetricRegistry | undefined,
): Promise<Telemetry> {
  const { otelExportEnabled, loggingSpanEvents } = settings;
  if (!otelExportEnabled && !loggingSpanEvents) return NONE;
  const otlp = otelExportEnabled ? await openExport(settings, clock, logger, registry) : undefined;
  if (otlp !== undefined) logger.mirrorTo(otlp.lines);
  const tracer = new Tracer({
    clock,
    random,
    sampleRatio: settings.otelTracesSampleRatio,
    sinks: [...(loggingSpanEvents ? [logSpans(logger.for('spans'))] : []), ...(otlp === undefined ? [] : [otlp.spans])],
  });
  return { ...NONE, ...otlp, tracer };
}

async function openExport(
  settings: FleetSettings,
  clock: Clock,
  logger: ProcessLogger,
  registry: MetricRegistry | undefined,
) {
  const { openOtlp, otlpTargets } = await import('./otlp/open-otlp.ts');
  return openOtlp({
    ...otlpTargets(settings),
    serviceName: settings.otelServiceName,
    clock,
    logger: logger.for('telemetry'),
    onDropped: registry && countDroppedTelemetry(registry),
  });
}
