import { type Clock, systemClock } from '../../clock/index.ts';
import { loadSdk } from './sdk.ts';
import { connect } from './sdk-client.ts';
import { type TablePlace, toTableError } from './table-errors.ts';

/** Keys of every table of this product, and the attribute (Unix seconds) after which garbage is cleared. */
export const TABLE_SCHEMA = { partitionKey: 'pk', sortKey: 'sk', ttlAttribute: 'ttl' } as const;

const REQUEST_TIMEOUT_MS = 5000;
const ACTIVE_MS_MAX = 60_000;
const POLL_MS = 100;

/**
 * Creates a table of `TABLE_SCHEMA`, on demand and with clearing of garbage, and waits until it can be used. A table that
 * exists is left as it is. For emulators and first trials; a deployment creates its tables by itself.
 */
export async function createTable(place: TablePlace, clock: Clock = systemClock): Promise<void> {
  const sdk = await loadSdk();
  const client = connect(sdk, place, REQUEST_TIMEOUT_MS);
  const { tableName: TableName } = place;
  const { partitionKey, sortKey, ttlAttribute } = TABLE_SCHEMA;
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
      if (clock.nowMs() > deadlineMs)
        throw place.toError('unavailable', `table "${TableName}" stays inactive`, undefined);
      await clock.sleep(POLL_MS);
    }
    const TimeToLiveSpecification = { AttributeName: ttlAttribute, Enabled: true };
    await client.send(new sdk.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
  } catch (error) {
    if (error instanceof Error && error.name === 'ResourceInUseException') return; // it exists
    throw toTableError(error, place);
  } finally {
    client.destroy();
  }
}
