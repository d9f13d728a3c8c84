import type { Clock, TimeAndChance } from '../../clock/index.ts';
import { ConfigError, type EdgeSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { LiveModelDirectory } from '../../pipeline/index.ts';
import { DynamoDbResponseStore, MemoryResponseStore, type ResponseStore } from '../../responses/index.ts';
import {
  createFileSink,
  createStreamSink,
  type Logger,
  type MetricRegistry,
  QueuedRecorder,
  type RecordSink,
  type RequestRecorder,
} from '../../telemetry/index.ts';
import type { InferenceDeps } from '../inference/deps.ts';
import type { FrontendOptions } from './deps.ts';
import { publishMetrics } from './embedded-metrics.ts';
import type { Base } from './open-base.ts';
import { primaryModels } from './open-directory.ts';

const ON: ReadonlySet<string> = new Set(['1', 'true', 'yes', 'on']);
const OFF: ReadonlySet<string> = new Set(['', '0', 'false', 'no', 'off']);

/**
 * Opens the recorder of every request. Returns undefined if the settings name no sink.
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
    'reason',
  );
  let isFailing = false;
  return new QueuedRecorder({
    sinks: names.map((name) => openSink(name, settings, clock)),
    clock,
    capacity: settings.requestTraceCapacity,
    onDropped: (count, reason) => dropped.with(reason).add(count),
    onFailure: (sink, error) => {
      if (!isFailing) logger.warn('request records cannot be written', { sink, reason: reasonOf(error) });
      isFailing = true; // one line is enough: the counter says how many
    },
  });
}

/** Returns the names of the sinks. `DYN_REQUEST_TRACE` is a switch, or the list of sinks itself. */
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

const BYTES_PER_MB = 1024 * 1024;
/** Largest share of the memory for one response. */
const RECORD_SHARE_MAX = 1 / 8;

/**
 * Opens the response store that the settings name: the table if there is one, otherwise memory. Returns undefined if
 * responses are not stored. That also holds in a function without a table, because its environments share no memory and
 * could not find a response again.
 */
export async function openResponseStore(
  settings: EdgeSettings,
  { clock, random }: TimeAndChance,
  registry: MetricRegistry,
  logger: Logger,
): Promise<ResponseStore | undefined> {
  if (settings.responseStore === 'off') return undefined;
  const ttlMs = settings.responseStoreTtlSecs * 1000;
  const { responsesTable: tableName, responseStoreMaxMb: memoryMbMax } = settings;
  if (tableName !== undefined) {
    const { dynamodbEndpoint: endpoint, awsRegion: region } = settings;
    return DynamoDbResponseStore.open({ tableName, endpoint, region, clock, random, ttlMs });
  }
  if (memoryMbMax === undefined) return undefined;
  const evicted = registry.counter(
    'stator_responses_evicted_total',
    'Stored responses that left memory before their time, for want of room.',
  );
  return new MemoryResponseStore({
    clock,
    ttlMs,
    bytesMax: memoryMbMax * BYTES_PER_MB,
    recordBytesMax: memoryMbMax * BYTES_PER_MB * RECORD_SHARE_MAX,
    onEvict: (id) => {
      evicted.with().add();
      logger.debug('response left the full store before its time', { response_id: id });
    },
  });
}

/**
 * Opens the recorders of every request: the records of the settings, and beside them the host's recorder or the
 * published metrics.
 */
export function openRecorders(
  settings: EdgeSettings,
  { recorder, secretsSinceMs }: FrontendOptions,
  { deps, lifecycle, view }: Base,
  directory: LiveModelDirectory,
): InferenceDeps['records'] {
  const { clock, metrics, logger, lifetime } = deps;
  const { registry } = metrics;
  const records = lifetime.use(openRequestRecords(settings, clock, registry, logger.for('records')));
  const models = () => primaryModels(directory);
  const sources = { clock, registry, lifecycle, models, viewAgeMs: view.ageMs, secretsSinceMs };
  const published = lifetime.use(publishMetrics(settings, sources));
  return both(records, recorder ?? published);
}

function both(
  records: RequestRecorder | undefined,
  recorder: FrontendOptions['recorder'],
): Pick<RequestRecorder, 'requestEnded'> | undefined {
  if (records === undefined || recorder === undefined) return records ?? recorder;
  return {
    requestEnded: (end) => {
      records.requestEnded(end);
      recorder.requestEnded(end);
    },
  };
}
