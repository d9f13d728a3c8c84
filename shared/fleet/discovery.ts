import type { FleetSettings } from '../config/index.ts';
import { type Discovery, openStore, type StoreOptions } from '../discovery/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** What a host says of how it uses discovery. */
export type DiscoveryHost = Pick<StoreOptions, 'isLasting'>;

/** Opens the discovery back end that the settings name. */
export function openDiscovery(settings: FleetSettings, logger: Logger, host: DiscoveryHost = {}): Promise<Discovery> {
  return openStore(settings, {
    ...host,
    ttlMs: settings.leaseTtlSecs * 1000,
    onProblem: (problem) => logger.warn('discovery problem', { problem: problem.message }),
  });
}
