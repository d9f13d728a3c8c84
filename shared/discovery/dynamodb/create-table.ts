import { type Clock, systemClock } from '../../clock/index.ts';
import { DiscoveryError } from '../discovery-error.ts';
import { DISCOVERY_TABLE_SCHEMA } from './schema.ts';
import { loadSdk } from './sdk.ts';
import { connect, type TableOptions } from './table.ts';
import { toTableError } from './table-errors.ts';

const REQUEST_TIMEOUT_MS = 5000;
const ACTIVE_MS_MAX = 60_000;
const POLL_MS = 100;

/**
 * Creates the discovery table, on demand and with clearing of garbage, and waits until it can be used. A table that exists
 * is left as it is. For emulators and first trials; a deployment creates it from `DISCOVERY_TABLE_SCHEMA`.
 */
export async function createDiscoveryTable(options: TableOptions, clock: Clock = systemClock): Promise<void> {
  const sdk = await loadSdk();
  const client = connect(sdk, options, REQUEST_TIMEOUT_MS);
  const { tableName: TableName } = options;
  const { partitionKey, sortKey, ttlAttribute } = DISCOVERY_TABLE_SCHEMA;
  try {
    await client.send(
      new sdk.CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
          { AttributeName: partitionKey, AttributeType: 'S' },
          { AttributeName: sortKey, AttributeType: 'S' },
        ],
        KeySchema: [
          { AttributeName: partitionKey, KeyType: 'HASH' },
          { AttributeName: sortKey, KeyType: 'RANGE' },
        ],
      }),
    );
    const isActive = async (): Promise<boolean> =>
      (await client.send(new sdk.DescribeTableCommand({ TableName }))).Table?.TableStatus === 'ACTIVE';
    const deadlineMs = clock.nowMs() + ACTIVE_MS_MAX;
    while (!(await isActive())) {
      if (clock.nowMs() > deadlineMs) throw new DiscoveryError('unavailable', `table "${TableName}" stays inactive`);
      await clock.sleep(POLL_MS);
    }
    const TimeToLiveSpecification = { AttributeName: ttlAttribute, Enabled: true };
    await client.send(new sdk.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
  } catch (error) {
    if (error instanceof Error && error.name === 'ResourceInUseException') return; // it exists
    throw toTableError(error, { tableName: TableName, endpoint: options.endpoint, region: options.region });
  } finally {
    client.destroy();
  }
}
