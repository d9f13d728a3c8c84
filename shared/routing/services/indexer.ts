import { systemClock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import {
  createIndexerMetrics,
  createServiceApp,
  indexerRoutes,
  Peers,
  parseExactJson,
  StandaloneIndexer,
} from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { zmqListeners } from './kv-listener.ts';
import type { RunningService, ServiceSettings } from './service-settings.ts';

/** Dropped blocks are given back in slices of less than 1 ms, this often. */
const HOUSEKEEPING_MS = 100;
/** For one peer's whole dump. */
const PEER_DUMP_TIMEOUT_MS = 60_000;

/** The standalone indexer. It starts with what the first peer that answers knows. */
export async function startIndexer(settings: ServiceSettings, logger: Logger): Promise<RunningService> {
  const metrics = createIndexerMetrics();
  const bytesMax = settings.indexMaxMb * 2 ** 20;
  const indexer = new StandaloneIndexer({ openListener: zmqListeners(logger), metrics, logger, bytesMax });
  const peers = new Peers();
  for (const url of settings.servicePeers) peers.add(url);
  await recover(indexer, peers, logger, settings.planeToken);
  const housekeeping = systemClock.every(HOUSEKEEPING_MS, () => indexer.housekeep());
  return {
    app: createServiceApp({
      routes: indexerRoutes({ indexer, metrics, peers, hasTestRoutes: settings.kvIndexerTestEndpoints }),
      errorForm: 'mixed',
      clock: systemClock,
      logger,
      onAnswered: metrics.answered,
    }),
    port: 8090,
    close: async () => {
      housekeeping.cancel();
      await indexer.close();
    },
  };
}

async function recover(
  indexer: StandaloneIndexer,
  peers: Peers,
  logger: Logger,
  secret: string | undefined,
): Promise<void> {
  const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
  for (const url of peers.list()) {
    try {
      const response = await fetch(new URL('/dump', url), {
        headers,
        redirect: 'error',
        signal: AbortSignal.timeout(PEER_DUMP_TIMEOUT_MS),
      });
      if (!response.ok) throw new Error(`status ${response.status}`);
      indexer.restore(parseExactJson(await response.text()));
      logger.info('index taken over from a peer', { url });
      return;
    } catch (error) {
      logger.warn('peer gave no dump', { url, reason: reasonOf(error) });
    }
  }
}
