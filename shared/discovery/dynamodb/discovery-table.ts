import type { Clock } from '../../clock/index.ts';
import { DiscoveryError } from '../options.ts';
import { createTable } from '../table/create-table.ts';
import type { TableOptions } from '../table/table.ts';
import type { TablePlace } from '../table/table-errors.ts';

/** The discovery table as its messages name it. */
export function discoveryTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'discovery table',
    setting: 'STATOR_DISCOVERY_TABLE',
    alternative: ', or choose --discovery-backend file',
    toError: (code, message, cause) => new DiscoveryError(code, message, cause),
    isOwnError: (thrown) => thrown instanceof DiscoveryError,
  };
}

/**
 * Creates the discovery table, on demand and with clearing of garbage, and waits until it can be used. A table that exists
 * is left as it is. For emulators and first trials; a deployment creates it from `DISCOVERY_TABLE_SCHEMA`.
 */
export function createDiscoveryTable(options: TableOptions, clock?: Clock): Promise<void> {
  return createTable(discoveryTablePlace(options), clock);
}
