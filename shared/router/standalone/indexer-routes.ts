import { u64OfHex } from '../../records/index.ts';
import { hashBlocks } from '../../tokens/index.ts';
import { type BodyFields, DEFAULT_GROUP } from './body-fields.ts';
import type { StandaloneIndexer } from './indexer.ts';
import type { IndexerMetrics } from './indexer-metrics.ts';
import type { ModelTree } from './model-tree.ts';
import type { WorkerOverlap } from './overlap-tokens.ts';
import { type Peers, peerRoutes } from './peers.ts';
import type { Answer, Route, ServiceCall } from './service-app.ts';
import { ServiceError } from './service-error.ts';

export interface IndexerRoutesOptions {
  readonly indexer: StandaloneIndexer;
  readonly metrics: IndexerMetrics;
  readonly peers: Peers;
  /** Adds the routes that pause and resume listeners. @default false */
  readonly hasTestRoutes?: boolean;
}

const OK = { status: 'ok' };

/** The HTTP surface of the standalone indexer. */
export function indexerRoutes({ indexer, metrics, peers, hasTestRoutes = false }: IndexerRoutesOptions): Route[] {
  const post = (path: string, serve: (body: BodyFields) => Answer): Route => ({
    method: 'POST',
    path,
    serve: async (call) => serve(await call.body()),
  });
  const get = (path: string, serve: (call: ServiceCall) => Answer | Promise<Answer>): Route => ({
    method: 'GET',
    path,
    serve,
  });
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
    get('/metrics', async () => {
      const { registry } = metrics;
      return { status: 200, text: await registry.render(), contentType: registry.contentType };
    }),
    { method: 'POST', path: '/reopen_logs', serve: () => ({ status: 200, json: OK }) }, // logs go to stderr
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
