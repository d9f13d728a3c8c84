import type { Clock } from '../../clock/index.ts';
import { createTable } from '../table/create-table.ts';
import type { TableOptions } from '../table/table.ts';
import { discoveryTablePlace } from './discovery-table.ts';

/**
 * Creates the discovery table, on demand and with clearing of garbage, and waits until it can be used. A table that exists
 * is left as it is. For emulators and first trials; a deployment creates it from `DISCOVERY_TABLE_SCHEMA`.
 */
export function createDiscoveryTable(options: TableOptions, clock?: Clock): Promise<void> {
  return createTable(discoveryTablePlace(options), clock);
}
