import { systemClock } from '../../clock/index.ts';
import { createServiceApp, Peers, SlotTracker, slotRoutes } from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { openReplicas } from './replicas.ts';
import type { RunningService, ServiceSettings } from './service-settings.ts';

/** Requests that were never freed are looked for this often. */
const EXPIRY_CHECK_MS = 60_000;

/** The slot tracker. */
export async function startSlotTracker(settings: ServiceSettings, logger: Logger): Promise<RunningService> {
  const replicas = await openReplicas(settings, logger);
  const tracker = new SlotTracker({
    clock: systemClock,
    expiryMs: settings.routerActiveRequestExpirySecs * 1000,
    replicas: replicas.pools,
  });
  const expiry = systemClock.every(EXPIRY_CHECK_MS, () => tracker.expire());
  const peers = new Peers(replicas.pools.peerObserver);
  for (const endpoint of settings.servicePeers) peers.add(endpoint);
  return {
    app: createServiceApp({ routes: slotRoutes(tracker, peers), errorForm: 'json', clock: systemClock, logger }),
    port: 8091,
    close: async () => {
      expiry.cancel();
      tracker.close();
      await replicas.close();
    },
  };
}
