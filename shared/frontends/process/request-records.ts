import type { Clock } from '../../clock/index.ts';
import { ConfigError, type EdgeSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import {
  createFileSink,
  createStreamSink,
  type Logger,
  type MetricRegistry,
  QueuedRecorder,
  type RecordSink,
  type RequestRecorder,
} from '../../telemetry/index.ts';

const ON: ReadonlySet<string> = new Set(['1', 'true', 'yes', 'on']);
const OFF: ReadonlySet<string> = new Set(['', '0', 'false', 'no', 'off']);

/**
 * What takes note of every request; undefined when nobody asked for it.
 * @throws Error with one line that names a sink that is not built
 */
export function openRequestRecords(
  settings: EdgeSettings,
  clock: Clock,
  registry: MetricRegistry,
  logger: Logger,
): RequestRecorder | undefined {
  const names = sinkNames(settings);
  if (names.length === 0) return undefined;
  const dropped = registry.counter(
    'stator_request_records_dropped_total',
    'Request records that were not written, because too many waited or a sink failed.',
    ['reason'],
  );
  let isFailing = false;
  return new QueuedRecorder({
    sinks: names.map((name) => openSink(name, settings, clock)),
    clock,
    capacity: settings.requestTraceCapacity,
    onDropped: (count, reason) => dropped.with(reason).add(count),
    onFailure: (sink, error) => {
      if (!isFailing) logger.warn('request records cannot be written', { sink, reason: reasonOf(error) });
      isFailing = true; // once is enough: the counter tells how many
    },
  });
}

/** `DYN_REQUEST_TRACE` is a switch, or the list of sinks itself. */
function sinkNames({ requestTrace, requestTraceSinks }: EdgeSettings): readonly string[] {
  const said = requestTrace?.trim().toLowerCase() ?? '';
  if (OFF.has(said)) return [];
  if (ON.has(said)) return requestTraceSinks;
  return [...new Set(said.split(',').map((name) => name.trim()))].filter((name) => name !== '');
}

function openSink(
  name: string,
  { requestTraceFilePath: path, requestTraceFileFormat }: EdgeSettings,
  clock: Clock,
): RecordSink {
  switch (name) {
    case 'file':
      return createFileSink({ path, format: requestTraceFileFormat, clock });
    case 'stderr':
      return createStreamSink('stderr', process.stderr);
    default:
      throw new ConfigError([`DYN_REQUEST_TRACE: the sink '${name}' is not built; use file or stderr`]);
  }
}
