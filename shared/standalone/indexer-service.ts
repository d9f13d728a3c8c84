import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import { request as askTls } from 'node:https';
import { text } from 'node:stream/consumers';
import type { TimeAndChance } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import { refuseClearToken } from '../fleet/index.ts';
import { clientTlsOptions, readPlaneTls } from '../planes/index.ts';
import { u64OfHex } from '../records/index.ts';
import { type Logger, MetricRegistry } from '../telemetry/index.ts';
import { hashBlocks } from '../tokens/index.ts';
import { type BodyFields, DEFAULT_GROUP, parseExactJson, ServiceError } from './body-fields.ts';
import { type IndexerMetrics, type ModelTree, StandaloneIndexer } from './indexer.ts';
import type { WorkerOverlap } from './pools.ts';
import { zmqListeners } from './rank-listeners.ts';
import { Peers, peerRoutes } from './replicas.ts';
import {
  type Answer,
  createServiceApp,
  OK,
  type Route,
  type RunningService,
  route,
  type ServiceCall,
  type ServiceSettings,
} from './service.ts';

/** Interval at which dropped blocks are freed, in slices of less than 1 ms. */
const HOUSEKEEPING_MS = 100;
/** Time limit for the whole dump of one peer. */
const PEER_DUMP_TIMEOUT_MS = 60_000;

/** Starts the standalone indexer with the index of the first peer that answers. */
export async function startIndexer(
  settings: ServiceSettings,
  { clock }: TimeAndChance,
  logger: Logger,
): Promise<RunningService> {
  const metrics = createIndexerMetrics();
  const bytesMax = settings.indexMaxMb * 2 ** 20;
  const indexer = new StandaloneIndexer({ openListener: zmqListeners(logger), metrics, logger, bytesMax });
  const peers = new Peers(settings.servicePeers);
  await recover(indexer, peers, settings, logger);
  const housekeeping = clock.every(HOUSEKEEPING_MS, () => indexer.housekeep());
  return {
    app: createServiceApp({
      routes: indexerRoutes({ indexer, metrics, peers, hasTestRoutes: settings.kvIndexerTestEndpoints }),
      errorForm: 'mixed',
      clock,
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

/** Loads the index of the first peer that answers. */
async function recover(
  indexer: StandaloneIndexer,
  peers: Peers,
  settings: ServiceSettings,
  logger: Logger,
): Promise<void> {
  for (const url of peers.list()) {
    try {
      indexer.restore(parseExactJson(await dumpOf(url, settings)));
      logger.info('loaded the index of a peer', { url });
      return;
    } catch (error) {
      logger.warn('a peer returned no dump', { url, reason: reasonOf(error) });
    }
  }
}

/** Requests the dump of a peer over http: or https:. A redirect counts as a failure: the token is only for the peer. */
async function dumpOf(peer: string, settings: ServiceSettings): Promise<string> {
  const url = new URL('/dump', peer);
  const isTls = url.protocol === 'https:';
  const shown = { what: 'it would be shown', host: url.hostname, remedies: ['use https:'] };
  const refusal = isTls ? undefined : refuseClearToken(settings, shown);
  if (refusal !== undefined) throw new Error(refusal);
  const { planeToken, planeTokenPrevious } = settings;
  const headers = {
    ...(planeToken === undefined ? {} : { authorization: `Bearer ${planeToken}` }),
    ...(planeTokenPrevious == null ? {} : { 'x-api-key': planeTokenPrevious }), // a peer may accept only this one
  };
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

export interface IndexerRoutesOptions {
  readonly indexer: StandaloneIndexer;
  readonly metrics: IndexerMetrics;
  readonly peers: Peers;
  /** Adds the routes that pause and resume listeners. @default false */
  readonly hasTestRoutes?: boolean;
}

/** Returns the HTTP routes of the standalone indexer. */
export function indexerRoutes({ indexer, metrics, peers, hasTestRoutes = false }: IndexerRoutesOptions): Route[] {
  const post = (path: string, serve: (body: BodyFields) => Answer): Route =>
    route('POST', path, async (call) => serve(await call.body()));
  const get = (path: string, serve: Route['serve']): Route => route('GET', path, serve);
  const testRoutes = [
    post('/test/pause_listener', (body) => changeListener(indexer, body, 'pause')),
    post('/test/resume_listener', (body) => changeListener(indexer, body, 'resume')),
  ];
  return [
    post('/register', (body) => register(indexer, body)),
    post('/unregister', (body) => unregister(indexer, body)),
    get('/workers', (call) => ({ status: 200, json: workerRows(indexer, call) })),
    post('/query', (body) => query(indexer, body)),
    post('/query_by_hash', (body) => queryByHash(indexer, body)),
    get('/dump', () => ({ status: 200, pieces: indexer.dump(), contentType: 'application/json' })),
    ...peerRoutes('', peers),
    get('/health', () => ({ status: 200, text: '', contentType: 'text/plain; charset=utf-8' })),
    get('/metrics', () => {
      const { registry } = metrics;
      return { status: 200, text: registry.render(), contentType: registry.contentType };
    }),
    route('POST', '/reopen_logs', () => ({ status: 200, json: OK })), // there is nothing to reopen: logs go to stderr
    ...(hasTestRoutes ? testRoutes : []),
  ];
}

function register(indexer: StandaloneIndexer, body: BodyFields): Answer {
  indexer.register({
    workerId: body.id('instance_id'),
    endpoint: body.text('endpoint'),
    model: body.text('model_name'),
    blockSizeTokens: body.u32('block_size'),
    group: body.optionalText('routing_group') ?? DEFAULT_GROUP,
    dpRank: body.optionalU32('dp_rank') ?? 0,
    replayEndpoint: body.optionalText('replay_endpoint'),
    cacheSalt: body.optionalText('additional_salt'),
  });
  return { status: 201, json: OK };
}

function unregister(indexer: StandaloneIndexer, body: BodyFields): Answer {
  const [workerId, model, group] = [
    body.id('instance_id'),
    body.text('model_name'),
    body.optionalText('routing_group'),
  ];
  if (!indexer.unregister(model, workerId, group, body.optionalU32('dp_rank'))) {
    throw new ServiceError(404, `instance ${u64OfHex(workerId)} of model ${model} is not registered`);
  }
  return { status: 200, json: OK };
}

function workerRows(indexer: StandaloneIndexer, call: ServiceCall): readonly unknown[] {
  const [model, group] = [call.query('model_name'), call.query('routing_group')];
  const rows: unknown[] = [];
  for (const tree of indexer.trees) {
    if ((model !== undefined && tree.model !== model) || (group !== undefined && tree.group !== group)) continue;
    for (const workerId of tree.listeners.workerIds) rows.push(workerRow(tree, workerId));
  }
  return rows;
}

function workerRow({ model, group, blockSizeTokens, listeners }: ModelTree, workerId: string): unknown {
  const ranks = listeners.of(workerId);
  return {
    instance_id: u64OfHex(workerId),
    source: 'zmq',
    status: 'active',
    model_name: model,
    routing_group: group,
    block_size: blockSizeTokens,
    endpoints: Object.fromEntries(ranks.map(({ dpRank, endpoint }) => [dpRank, endpoint])),
    listeners: Object.fromEntries(ranks.map(({ dpRank, endpoint, status }) => [dpRank, { endpoint, status }])),
  };
}

function query(indexer: StandaloneIndexer, body: BodyFields): Answer {
  const tokens = body.tokens('token_ids');
  const tree = indexer.treeOf(body.text('model_name'), body.optionalText('routing_group') ?? DEFAULT_GROUP);
  const hashes = hashBlocks(tokens, {
    blockSizeTokens: tree.blockSizeTokens,
    loraName: body.optionalText('lora_name'),
    cacheSalt: body.optionalText('cache_salt'),
  });
  return { status: 200, json: queryReply(tree.match(hashes)) };
}

function queryByHash(indexer: StandaloneIndexer, body: BodyFields): Answer {
  const hashes = body.hashes('block_hashes');
  if (body.has('cache_salt')) throw new ServiceError(400, 'cache_salt cannot be applied to hashes: use /query');
  const tree = indexer.treeOf(body.text('model_name'), body.optionalText('routing_group') ?? DEFAULT_GROUP);
  return { status: 200, json: queryReply(tree.matchLocal(hashes)) };
}

function queryReply(instances: Readonly<Record<string, WorkerOverlap>>): unknown {
  const onDevice = Object.entries(instances).filter(([, { gpu }]) => gpu > 0);
  return { scores: Object.fromEntries(onDevice.map(([id, { dp }]) => [id, dp])), frequencies: [], instances };
}

function changeListener(indexer: StandaloneIndexer, body: BodyFields, change: 'pause' | 'resume'): Answer {
  const [workerId, dpRank] = [body.id('instance_id'), body.optionalU32('dp_rank') ?? 0];
  if (!indexer.forRank(workerId, dpRank, ({ listeners }) => listeners[change](workerId, dpRank))) {
    throw new ServiceError(404, `instance ${u64OfHex(workerId)} rank ${dpRank} is not registered`);
  }
  return { status: 200, json: OK };
}

/** In seconds; lookups take microseconds, a long dump takes seconds. */
const DURATION_BOUNDS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

const LISTENER_STATUSES = ['pending', 'active', 'paused', 'failed'];

/** Registers the metrics of the standalone indexer. */
export function createIndexerMetrics(): IndexerMetrics {
  const registry = new MetricRegistry();
  const name = (rest: string): string => `dynamo_kvindexer_${rest}`;
  const requests = registry.counter(name('requests_total'), 'Requests.', 'endpoint', 'method');
  const errors = registry.counter(name('errors_total'), 'Answers with status 4xx or 5xx.', 'endpoint', 'status_class');
  const durations = registry.histogram(
    name('request_duration_seconds'),
    'Time to the answer.',
    DURATION_BOUNDS,
    'endpoint',
  );
  const models = registry.gauge(name('models'), 'Pairs of model and routing group with an index.').with();
  const workers = registry.gauge(name('workers'), 'Registered workers.').with();
  const listeners = registry.gauge(name('listeners'), 'Subscriptions to workers, by status.', 'status');
  const applied = registry.counter(
    'dynamo_kvrouter_kv_cache_events_applied',
    'KV events that reached an index.',
    'event_type',
    'status',
  );
  const warnings = registry
    .counter('dynamo_kvrouter_kv_cache_event_warnings', 'Blocks stored where they were held already.', 'warning_kind')
    .with('duplicate_store');
  const blocks = registry.gauge('stator_router_index_blocks', 'Blocks in all indexes.').with();
  const bytes = registry.gauge('stator_router_index_bytes', 'Memory taken by all indexes.').with();
  const evicted = registry
    .counter('stator_router_index_evicted_blocks_total', 'Blocks that left an index because it was full.')
    .with();
  return {
    registry,
    answered(path, method, status, elapsedMs) {
      requests.with(path, method).add();
      durations.with(path).observe(elapsedMs / 1000);
      if (status >= 400) errors.with(path, `${Math.floor(status / 100)}xx`).add();
    },
    applied: (type, status) => applied.with(type, status).add(),
    evicted: (count) => evicted.add(count),
    show: (read) =>
      registry.beforeScrape(() => {
        const state = read();
        models.set(state.models);
        workers.set(state.workers);
        blocks.set(state.indexBlocks);
        bytes.set(state.indexBytes);
        warnings.value = state.duplicateBlocks;
        for (const status of LISTENER_STATUSES) listeners.with(status).set(state.listeners.get(status) ?? 0);
      }),
  };
}
