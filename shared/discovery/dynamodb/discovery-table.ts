import { DiscoveryError } from '../discovery-error.ts';
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
