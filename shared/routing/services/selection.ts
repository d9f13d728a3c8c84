import { seededRandom, systemClock, systemRandom } from '../../clock/index.ts';
import { kvRouterConfigOf } from '../../router/scheduler/index.ts';
import { createServiceApp, Peers, SelectionService, selectionRoutes } from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { readRouterFiles } from '../router-files.ts';
import { zmqListeners } from './kv-listener.ts';
import { openReplicas } from './replicas.ts';
import type { RunningService, ServiceSettings } from './service-settings.ts';

/** Dropped blocks are given back in slices of less than 1 ms, and queues looked at, this often. */
const HOUSEKEEPING_MS = 100;
/** Requests that were never freed are looked for this often. */
const EXPIRY_CHECK_MS = 60_000;

/** The selection service. */
export async function startSelectionService(settings: ServiceSettings, logger: Logger): Promise<RunningService> {
  const { policies, prefillDuration } = await readRouterFiles(settings);
  const { routerSessionAffinityTtlSecs: affinitySecs, routerSessionAffinityMode: affinityMode } = settings;
  const replicas = await openReplicas(settings, logger);
  const service = new SelectionService({
    config: kvRouterConfigOf(settings, policies?.settings),
    policies,
    prefillDuration,
    indexBytesMax: settings.indexMaxMb * 2 ** 20,
    openListener: zmqListeners(logger),
    ...(affinitySecs === undefined ? {} : { sessionAffinity: { ttlMs: affinitySecs * 1000, mode: affinityMode } }),
    replicas: replicas.pools,
    clock: systemClock,
    random: settings.routerSeed === undefined ? systemRandom : seededRandom(settings.routerSeed),
    logger,
  });
  const peers = new Peers(replicas.pools.peerObserver);
  for (const endpoint of settings.servicePeers) peers.add(endpoint);
  const timers = [
    systemClock.every(HOUSEKEEPING_MS, () => service.housekeep()),
    systemClock.every(EXPIRY_CHECK_MS, () => service.expire()),
  ];
  const routes = selectionRoutes({ service, peers, nowMs: () => systemClock.nowMs() });
  return {
    app: createServiceApp({ routes, errorForm: 'json', clock: systemClock, logger }),
    port: 8092,
    close: async () => {
      for (const timer of timers) timer.cancel();
      await service.close();
      await replicas.close();
    },
  };
}
