import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import { request as askTls } from 'node:https';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { readPlaneTls, refuseClearToken } from '../../fleet/index.ts';
import { clientTlsOptions } from '../../planes/request/index.ts';
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
  await recover(indexer, peers, settings, logger);
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

/** Takes over what the first peer that answers knows. */
async function recover(
  indexer: StandaloneIndexer,
  peers: Peers,
  settings: ServiceSettings,
  logger: Logger,
): Promise<void> {
  for (const url of peers.list()) {
    try {
      indexer.restore(parseExactJson(await dumpOf(url, settings)));
      logger.info('index taken over from a peer', { url });
      return;
    } catch (error) {
      logger.warn('peer gave no dump', { url, reason: reasonOf(error) });
    }
  }
}

/** Asks a peer for all that it knows, by http: or https:. A redirection counts as a failure: the token is for the peer alone. */
async function dumpOf(peer: string, settings: ServiceSettings): Promise<string> {
  const url = new URL('/dump', peer);
  const isTls = url.protocol === 'https:';
  const shown = { what: 'it would be shown', host: url.hostname, remedies: ['use https:'] };
  const refusal = isTls ? undefined : refuseClearToken(settings, shown);
  if (refusal !== undefined) throw new Error(refusal);
  const { planeToken } = settings;
  const headers = planeToken === undefined ? {} : { authorization: `Bearer ${planeToken}` };
  const tls = isTls ? readPlaneTls(settings)?.client : undefined;
  const options = { headers, signal: AbortSignal.timeout(PEER_DUMP_TIMEOUT_MS), ...(tls && clientTlsOptions(tls)) };
  const asking = isTls ? askTls(url, options) : ask(url, options);
  asking.end();
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) {
    response.destroy();
    throw new Error(`status ${response.statusCode}`);
  }
  return text(response);
}
