import type { FleetSettings } from '../config/index.ts';
import {
  type Discovery,
  openStore,
  type ReadingSource,
  type StoreOptions,
  type ViewObserver,
} from '../discovery/index.ts';
import { createDiscoveryMetrics, type Logger, type MetricRegistry } from '../telemetry/index.ts';

/** What a host says of how it uses discovery. */
export interface DiscoveryHost extends Pick<StoreOptions, 'isLasting' | 'showsAskedModels' | 'clock' | 'random'> {
  /** Where the metrics of discovery are shown. @default nowhere */
  readonly registry?: MetricRegistry;
  /** A reading showed a view that is kept up, and was written `ageMs` ago. */
  readonly onView?: (ageMs: number) => void;
}

/** Opens the discovery back end that the settings name. */
export async function openDiscovery(
  settings: FleetSettings,
  logger: Logger,
  { registry, onView, ...host }: DiscoveryHost = {},
): Promise<Discovery> {
  const discovery = await openStore(settings, {
    ...host,
    ttlMs: settings.leaseTtlSecs * 1000,
    onProblem: (problem) => logger.warn('discovery problem', { problem: problem.message }),
    observer: observeView(logger, registry, onView),
  });
  if (discovery.meetingPlace !== undefined)
    logger.info('processes of this user meet in', { folder: discovery.meetingPlace });
  return discovery;
}

/** One log line when the way changes in which the fleet is read, and the metrics of each reading. */
function observeView(
  logger: Logger,
  registry: MetricRegistry | undefined,
  onView: DiscoveryHost['onView'],
): ViewObserver {
  let before: ReadingSource | undefined;
  let metrics: ReturnType<typeof createDiscoveryMetrics> | undefined; // made by the first reading: other stores keep no view
  const measured = () => {
    if (registry !== undefined) metrics ??= createDiscoveryMetrics(registry);
    return metrics;
  };
  return {
    read(source, ageMs) {
      measured()?.read(source, ageMs);
      if (source !== 'leases') onView?.(ageMs);
      const [was, wasAbsent] = [before, before === 'leases'];
      before = source;
      if (source !== 'leases' && wasAbsent) logger.info('the fleet view is kept up again');
      if (source !== 'leases' || wasAbsent) return;
      if (was === undefined) logger.info('there is no fleet view yet; reading the leases themselves');
      else logger.warn('the fleet view is too old; reading the leases themselves');
    },
    gathering(isGathering, reason) {
      measured()?.gathering(isGathering);
      if (isGathering) logger.info('this process gathers the fleet view');
      else logger.warn('this process no longer gathers the fleet view', { reason });
    },
  };
}
