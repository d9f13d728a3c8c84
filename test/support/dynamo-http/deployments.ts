import { join } from 'node:path';
import { seededRandom, systemClock, systemRandom } from '../../../shared/clock/index.ts';
import type { ModelCard, ModelType } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { workerError } from '../../../shared/errors/index.ts';
import { createHttpApp } from '../../../shared/frontends/http/app.ts';
import type { HttpSettings } from '../../../shared/frontends/http/settings.ts';
import { ByteBudget } from '../../../shared/frontends/inference/deps.ts';
import { ServiceLifecycle } from '../../../shared/frontends/inference/lifecycle.ts';
import { startHttpServer } from '../../../shared/frontends/node/server.ts';
import {
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  type Worker,
  workerSetsOf,
} from '../../../shared/pipeline/index.ts';
import type { IncomingCall, RequestPlane } from '../../../shared/planes/index.ts';
import { decodeEngineRequest } from '../../../shared/protocol/index.ts';
import { MemoryResponseStore } from '../../../shared/responses/index.ts';
import { Inhibition, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { createFrontendMetrics } from '../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { type LoadedModel, loadModelFolder } from '../../../shared/tokens/index.ts';
import { defaultHttpSettings } from '../http-settings.ts';
import { createMemoryRequestPlane } from '../memory-request-plane.ts';
import { ScriptedEngine, type WorkerScript } from '../scripted-engine.ts';
import { playMedia } from './media.ts';
import { loadModels, type RegisteredModel } from './records.ts';

/**
 * Settings of the recorded servers (test/fixtures/dynamo-http/README.md), and of one whose paths come from `_ENV`
 * names.
 */
const PREFIXED = (prefix: string) => ({
  chat: `${prefix}/chat`,
  completions: `${prefix}/cmp`,
  embeddings: `${prefix}/emb`,
  responses: `${prefix}/rsp`,
  models: `${prefix}/models`,
  messages: `${prefix}/msg`,
  health: `${prefix}/health`,
  live: `${prefix}/live`,
  metrics: `${prefix}/metrics`,
});
const ENV1: Partial<HttpSettings> = {
  bodyLimitBytes: 1024 * 1024,
  contextWindow: 777,
  maxOutputTokens: 55,
  peekMs: 1000,
  decode: { ...defaultHttpSettings.decode, ignoresUnknownKeys: true, forcesUsage: true },
};
const ANTHROPIC = { isEnabled: true, stripsPreamble: true };
const DEPLOYMENTS: Readonly<Record<string, Partial<HttpSettings>>> = {
  default: { anthropic: ANTHROPIC },
  empty: {},
  mocker: { anthropic: ANTHROPIC },
  'mocker-busy': { anthropic: ANTHROPIC },
  'mocker-draining': { anthropic: ANTHROPIC },
  'limit-45': { bodyLimitBytes: 45 * 1024 * 1024 },
  env1: ENV1,
  'env1-paths': {
    ...ENV1,
    paths: {
      ...defaultHttpSettings.paths,
      chat: '/a/chat',
      completions: '/a/cmp',
      models: '/a/models',
      health: '/a/health',
    },
  },
  env2: {
    paths: PREFIXED('/b'),
    keepAliveMs: 100,
    reasoningField: 'reasoning',
    dispatch: { toolCalls: true, reasoning: true },
    anthropic: ANTHROPIC,
    hasAdminRoutes: false,
    decode: { ...defaultHttpSettings.decode, isNvextDisabled: true },
  },
};

/** A frontend on a port, in front of scripted workers in the same process. */
export interface Deployment {
  readonly port: number;
  readonly engine: ScriptedEngine;
  readonly loaded: LoadedModel;
  /** Id of the instance behind each model. */
  readonly instances: ReadonlyMap<string, string>;
  /** Unix milliseconds. */
  readonly startedMs: number;
  close(): Promise<void>;
}

/**
 * Starts the recorded server `name`: the real app, pipeline and request plane, in front of scripted engines.
 * @param more models in addition to those of the record
 */
export async function startDeployment(
  name: string,
  folder: string,
  scripts: ReadonlyMap<string, WorkerScript>,
  more: readonly RegisteredModel[] = [],
): Promise<Deployment> {
  const startedMs = Date.now();
  const loaded = await loadModelFolder(join(folder, 'model'));
  const engine = new ScriptedEngine({
    scripts,
    encode: (text) => loaded.tokenizer.encode(text),
    decode: (ids) => loaded.tokenizer.decode(ids, { skipSpecialTokens: false }),
  });
  const plane = createMemoryRequestPlane({ clock: systemClock });
  const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
  const registered = [...(name.startsWith('mocker') ? MOCKED : loadModels(folder)), ...more];
  const instances = new Map<string, string>();
  if (name !== 'empty') await registerModels(name, registered, { plane, discovery, engine, instances });
  const inhibition = new Inhibition(systemClock, 0);
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition });
  const pools = new FollowedPools(router);
  const models = new LiveModelDirectory({ discovery, clock: systemClock });
  models.follow(() => pools.follow(models.list().flatMap(workerSetsOf)));
  await models.start();
  const metrics = createFrontendMetrics();
  const pipeline = createPipeline({
    models,
    store: new ModelStore({ open: async () => loaded, clock: systemClock, onFailure: () => {} }),
    router,
    inhibition,
    plane,
    clock: systemClock,
    observer: metrics,
    migrationLimit: 0,
    streamSilenceMsMax: name === 'env2' ? 1000 : 0,
  });
  const lifecycle = new ServiceLifecycle();
  lifecycle.discovered();
  const app = createHttpApp({
    pipeline,
    metrics,
    logger: silentLogger,
    clock: systemClock,
    random: systemRandom,
    settings: { ...defaultHttpSettings, ...DEPLOYMENTS[name] },
    bodies: new ByteBudget('bodies_bytes', 1024 ** 3),
    answers: new ByteBudget('answers_bytes', 1024 ** 3),
    responseStore: new MemoryResponseStore({ clock: systemClock, ttlMs: 60_000, bytesMax: 1024 * 1024 }),
    instances: () => models.instances(),
    lifecycle,
  });
  if (name === 'mocker-draining') lifecycle.drain();
  const server = await startHttpServer(app, { host: '127.0.0.1', port: 0, lifecycle });
  return {
    port: server.port,
    engine,
    loaded,
    instances,
    startedMs,
    close: async () => {
      await server.close(0);
      models.close();
      await Promise.all([plane.close(), discovery.close()]);
    },
  };
}

/** The services in which models register. */
interface Ground {
  readonly plane: RequestPlane;
  readonly discovery: MemoryDiscovery;
  readonly engine: ScriptedEngine;
  readonly instances: Map<string, string>;
}

async function registerModels(
  deployment: string,
  registered: readonly RegisteredModel[],
  { plane, discovery, engine, instances }: Ground,
): Promise<void> {
  const random = seededRandom(7);
  for (const model of registered) {
    if (deployment === 'env2' && !['plain', 'ctx64', 't.hermes', 'x.hermes.qwen3'].includes(model.name)) continue;
    const id = random.instanceId();
    instances.set(model.name, id);
    const server = await plane.serve({ instanceId: id });
    const component = componentOf(model.name, deployment);
    const transport = server.handle(`${id}/dynamo/${component}/generate`, (call) =>
      deployment === 'mocker-busy' ? refuse(call) : serve(call, model, engine),
    );
    const place = { namespace: 'dynamo', component, endpoint: 'generate', instance_id: id };
    await discovery.put({ type: 'Endpoint', ...place, transport, device_type: 'cuda' });
    await discovery.put({ type: 'Model', ...place, card: cardOf(model) });
  }
}

/** The model of the recorded mock workers. */
const MOCKED: readonly RegisteredModel[] = [{ name: 'qwen3', kind: 'chat' }];

/** Answers a call as a full worker does. */
function refuse(call: IncomingCall): void {
  call.fail(workerError('WorkerOverloaded', 'over its threshold'));
}

function serve(call: IncomingCall, model: RegisteredModel, engine: ScriptedEngine): void | Promise<void> {
  const record = call.body as Readonly<Record<string, unknown>>; // `encodeEngineRequest` made it
  if (model.kind === 'chat') {
    return engine.generate(decodeEngineRequest(call.id, record, call.tokenIds), call, call.stopped);
  }
  if (model.kind === 'textin') {
    const request = decodeEngineRequest(call.id, record, call.tokenIds);
    if (engine.playsBodies(request)) return engine.generate(request, call, call.stopped);
  }
  if (model.kind !== 'textin') {
    playMedia(decodeEngineRequest(call.id, record, call.tokenIds), model.kind, call, engine);
    return;
  }
  engine.seen.push({ request: decodeEngineRequest(call.id, record, call.tokenIds), prompt: '', wasCancelled: false });
  const delta = { index: 0, delta: { role: 'assistant', content: 'raw text' }, finish_reason: 'stop' };
  call.output({
    body: { id: 'worker', object: 'chat.completion.chunk', created: 1, model: 'worker', choices: [delta] },
  });
  call.end();
}

function componentOf(name: string, deployment: string): string {
  if (name === 'halfdisagg') return 'half';
  if (name === 'org/textin') return 'textin';
  if (deployment === 'env2' && name === 't.hermes') return 'th';
  if (deployment === 'env2' && name === 'x.hermes.qwen3') return 'xh';
  return name.replaceAll(/[._]/g, '-');
}

const TYPES: Readonly<Record<RegisteredModel['kind'], readonly ModelType[]>> = {
  chat: ['Chat', 'Completions'],
  emb: ['Embedding'],
  img: ['Images'],
  vid: ['Videos'],
  textin: ['Chat'],
};

function cardOf(model: RegisteredModel): ModelCard {
  const isMedia = model.kind === 'img' || model.kind === 'vid';
  return {
    display_name: model.name,
    slug: model.name.replaceAll('/', '-'),
    files: {},
    kv_cache_block_size: 16,
    model_type: TYPES[model.kind],
    model_input: model.kind === 'chat' || model.kind === 'emb' ? 'Tokens' : 'Text',
    worker_type: model.needs_prefill_peer === true ? 'decode' : 'aggregated',
    needs: model.needs_prefill_peer === true ? [['prefill']] : [],
    aliases: model.aliases ?? [],
    runtime_config: isMedia
      ? {}
      : {
          context_length: model.context_length ?? 4096,
          ...(model.tool_call_parser === undefined ? {} : { tool_call_parser: model.tool_call_parser }),
          ...(model.reasoning_parser === undefined ? {} : { reasoning_parser: model.reasoning_parser }),
        },
  };
}
