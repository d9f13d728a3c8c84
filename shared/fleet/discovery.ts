import type { FleetSettings } from '../config/index.ts';
import {
  type Discovery,
  openStore,
  type ReadingSource,
  type StoreOptions,
  type ViewObserver,
} from '../discovery/index.ts';
import { createDiscoveryMetrics, type Logger, type MetricRegistry } from '../telemetry/index.ts';

/** Choices of a process about how it uses discovery. */
export interface DiscoveryHost extends Pick<StoreOptions, 'isLasting' | 'showsAskedModels' | 'clock' | 'random'> {
  /** Registry for the metrics of discovery. @default none: they are not shown */
  readonly registry?: MetricRegistry;
  /** Called when a reading shows a view that a process keeps up to date. The view was written `ageMs` ago. */
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

/** Returns an observer that counts each reading, and logs a line when the fleet begins to be read in another way. */
function observeView(
  logger: Logger,
  registry: MetricRegistry | undefined,
  onView: DiscoveryHost['onView'],
): ViewObserver {
  let before: ReadingSource | undefined;
  // Created by the first reading: other stores keep no view.
  let metrics: ReturnType<typeof createDiscoveryMetrics> | undefined;
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
