import type { TimeAndChance } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import { DynamoDbResponseStore, MemoryResponseStore, type ResponseStore } from '../../responses/index.ts';
import type { Logger, MetricRegistry } from '../../telemetry/index.ts';

const BYTES_PER_MB = 1024 * 1024;
/** Of the memory, for one response. */
const RECORD_SHARE_MAX = 1 / 8;

/**
 * Opens the response store that the settings name: the table if there is one, else memory. Undefined when nothing is to be
 * stored, or, in a function without a table, when nothing could be found again: its environments share no memory.
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
