import type { FleetSettings } from '../config/index.ts';
import { createDiscovery, type Discovery, parseDiscoveryBackend } from '../discovery/index.ts';
import type { Logger } from '../telemetry/index.ts';

export interface DiscoveryHost {
  /** Whether it deletes from the table what dead processes left there; a host with no right to write does not. @default true */
  readonly sweeps?: boolean;
}

/** Opens the discovery back end that the settings name. */
export async function openDiscovery(
  settings: FleetSettings,
  logger: Logger,
  { sweeps = true }: DiscoveryHost = {},
): Promise<Discovery> {
  const base = {
    ttlMs: settings.leaseTtlSecs * 1000,
    onProblem: (problem: Error) => logger.warn('discovery problem', { problem: problem.message }),
  };
  const backend = parseDiscoveryBackend(settings.discoveryBackend);
  switch (backend) {
    case 'mem':
      return createDiscovery({ backend, ...base });
    case 'file':
      return createDiscovery({ backend, ...base, rootPath: settings.fileKv });
    case 'dynamodb':
      if (settings.discoveryTable === undefined)
        throw new Error('discovery backend dynamodb needs STATOR_DISCOVERY_TABLE');
      return createDiscovery({
        backend,
        ...base,
        tableName: settings.discoveryTable,
        ...(sweeps ? {} : { sweepAfterMs: Number.POSITIVE_INFINITY }),
        ...(settings.dynamodbEndpoint === undefined ? {} : { endpoint: settings.dynamodbEndpoint }),
        ...(settings.awsRegion === undefined ? {} : { region: settings.awsRegion }),
      });
  }
}
