import type { Gate } from '../../../shared/access/index.ts';
import { BlockIndex } from '../../../shared/block-index/index.ts';
import { type Clock, seededRandom, systemClock, systemRandom } from '../../../shared/clock/index.ts';
import type { ModelCard, ModelInput, ModelType } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { createKserveService, type KserveService } from '../../../shared/frontends/grpc/service.ts';
import { ByteBudget } from '../../../shared/frontends/inference/deps.ts';
import { ServiceLifecycle } from '../../../shared/frontends/inference/lifecycle.ts';
import { type GrpcServer, type GrpcServerOptions, openGrpcServer } from '../../../shared/grpc/index.ts';
import {
  ColdStartQueue,
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  type Worker,
  workerSetsOf,
} from '../../../shared/pipeline/index.ts';
import type { IncomingCall, PlaneServer } from '../../../shared/planes/index.ts';
import { Inhibition, KvRouter, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { createFrontendMetrics, type FrontendMetrics, type Tracer } from '../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { letterModel } from '../../shared/pipeline/fixtures.ts';
import { defaultHttpSettings } from '../http-settings.ts';
import { createMemoryRequestPlane } from '../memory-request-plane.ts';
import { serveEcho, serveText } from './scripted-engines.ts';

const TRITON_ECHO =
  '0a046563686f1206637573746f6d2a150a05696e707574100d220affffffffffffffffff012a200a0e6f7074696f6e616c5f696e7075741008220affffffffffffffffff014001321c0a0c64756d6d795f6f7574707574100d1a0affffffffffffffffff019a01020801';
const TRITON_BATCHED =
  '0a0d626174636865645f696e6e657212106f6e6e7872756e74696d655f6f6e6e781a040a02080220082a0d0a06494e5055543010082201042a0e0a015710632201022a040a0201022a090a024246100e22010232150a074f555450555430100b1a010422056c2e7478743a070a0167100220025a040a02040872080a016b12030a01768a010b6f6e6e7872756e74696d65fa3f03616263';

const triton = (hex: string, name: string): Partial<ModelCard> => ({
  tensor_model_config: { name, inputs: [], outputs: [], triton_model_config: [...Buffer.from(hex, 'hex')] },
});
const described = (name: string, data_type: string, shape: readonly number[]) => ({ name, data_type, shape });

const TENSOR = { model_type: ['TensorBased'] as ModelType[], model_input: 'Tensor' as ModelInput };

const MODELS: Readonly<Record<string, Partial<ModelCard>>> = {
  echo: { ...TENSOR, ...triton(TRITON_ECHO, 'echo') },
  plain: {
    ...TENSOR,
    tensor_model_config: {
      name: 'plain_inner',
      inputs: [
        described('INPUT0', 'Int32', [-1, 4]),
        described('B', 'Bytes', [1]),
        described('H', 'Float16', [2]),
        described('BF', 'BFloat16', [2]),
      ],
      outputs: [described('OUTPUT0', 'Float32', [-1]), described('O1', 'Bool', [1]), described('O2', 'Uint8', [1])],
    },
  },
  batched: { ...TENSOR, ...triton(TRITON_BATCHED, 'batched') },
  noconf: TENSOR,
  badconf: { ...TENSOR, ...triton('0affff', 'badconf') },
  text: { model_type: ['Completions'], model_input: 'Text' },
  chatonly: { model_type: ['Chat'], model_input: 'Text' },
};

/** The scripted models behind a gRPC server, in one process. */
export interface ScriptedKserve {
  /** Names of the models. */
  readonly names: readonly string[];
  readonly server: GrpcServer;
  readonly service: KserveService;
  readonly lifecycle: ServiceLifecycle;
  readonly metrics: FrontendMetrics;
  /** Bodies that the text engine received. */
  readonly bodies: readonly Readonly<Record<string, unknown>>[];
  /** Number of worker calls stopped before their end. */
  readonly stopped: () => number;
  /** Number of requests that wait for a worker to appear. */
  readonly held: () => number;
  /** Removes the worker of a model. */
  remove(model: string): Promise<void>;
  /** Kills the worker of `letters` with that number and all its work, before discovery notices. */
  kill(worker: number): Promise<void>;
  close(): Promise<void>;
}

export interface ScriptedKserveOptions {
  /** How long a model stays known without workers. @default not at all */
  readonly rememberedMs?: number;
  readonly host?: string;
  readonly port?: number;
  readonly gate?: Gate;
  /**
   * @default a tracer without spans
   */
  readonly tracer?: Tracer;
  readonly grpc?: Partial<GrpcServerOptions>;
  /**
   * @default the machine's
   */
  readonly clock?: Clock;
  /**
   * @default a new lifecycle that is ready
   */
  readonly lifecycle?: ServiceLifecycle;
  /** Adds the model `letters`, of which a token is a letter, with two workers that run this function. */
  readonly letters?: (call: IncomingCall, worker: number) => void;
  /** Whether requests wait if the workers of their model are gone; needs `rememberedMs`. @default they fail */
  readonly holds?: boolean;
  /**
   * Whether workers of `letters` take one prompt at a time, while others wait in the router's queue. @default
   * round-robin
   */
  readonly queues?: boolean;
}

const LETTERS: Partial<ModelCard> = {
  model_type: ['Completions'],
  model_input: 'Tokens',
  runtime_config: { max_num_batched_tokens: 1000 },
};

/** Serves the models of test/fixtures/kserve/README.md. */
export async function startScriptedKserve(options: ScriptedKserveOptions = {}): Promise<ScriptedKserve> {
  const { host = '127.0.0.1', port = 0, gate, tracer, grpc, clock = systemClock, letters } = options;
  const plane = createMemoryRequestPlane({ clock });
  const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
  const random = seededRandom(7);
  const bodies: Readonly<Record<string, unknown>>[] = [];
  let stopped = 0;
  const leave = new Map<string, () => Promise<void>>();
  const servers: PlaneServer[] = [];
  const add = async (name: string, model: Partial<ModelCard>, serve: (call: IncomingCall) => Promise<void> | void) => {
    const id = random.instanceId();
    const server = await plane.serve({ instanceId: id });
    servers.push(server);
    const transport = server.handle(`${id}/dynamo/${name}/generate`, (call: IncomingCall) => {
      call.stopped.addEventListener('abort', () => stopped++);
      return serve(call) ?? undefined;
    });
    const place = { namespace: 'dynamo', component: name, endpoint: 'generate', instance_id: id };
    const endpoint = { type: 'Endpoint' as const, ...place, transport, device_type: 'cuda' };
    const card = { type: 'Model' as const, ...place, card: cardOf(name, model) };
    await discovery.put(endpoint);
    await discovery.put(card);
    leave.set(name, async () => {
      await discovery.remove(card);
      await discovery.remove(endpoint);
    });
  };
  if (letters !== undefined) for (const at of [0, 1]) await add('letters', LETTERS, (call) => letters(call, at));
  for (const [name, model] of Object.entries(MODELS)) {
    const isTensor = model.model_input === 'Tensor';
    await add(name, model, (call) => (isTensor ? serveEcho(call) : serveText(call, (body) => bodies.push(body))));
  }
  const inhibition = new Inhibition(clock, 0);
  const router = options.queues
    ? new KvRouter<Worker>({
        config: kvRouterConfig({ queueThreshold: 0 }),
        clock,
        random,
        indexFor: (_, ranks) => new BlockIndex({ ranks }),
      })
    : new SimpleRouter<Worker>({ mode: 'round-robin', random, inhibition });
  const observer = { holding() {}, wanted() {}, held() {} };
  const hold = options.holds ? new ColdStartQueue({ clock, timeoutMs: 60_000, observer }) : undefined;
  const pools = new FollowedPools(router);
  let service: KserveService | undefined;
  const models = new LiveModelDirectory({
    discovery,
    ...(options.rememberedMs === undefined ? {} : { rememberedMs: options.rememberedMs }),
    clock,
  });
  models.follow(() => {
    pools.follow(models.list().flatMap(workerSetsOf));
    service?.health.changed();
    hold?.look();
  });
  await models.start();
  const metrics = createFrontendMetrics();
  const pipeline = createPipeline({
    models,
    store: new ModelStore({
      open: ({ card }) =>
        card.display_name === 'letters'
          ? Promise.resolve(letterModel)
          : Promise.reject(new Error('no other model has files')),
      clock,
      onFailure: () => {},
    }),
    router,
    inhibition,
    plane,
    clock,
    hold,
    observer: metrics,
    migrationLimit: letters === undefined ? 0 : 3,
  });
  const lifecycle = options.lifecycle ?? new ServiceLifecycle();
  if (options.lifecycle === undefined) lifecycle.discovered();
  service = createKserveService({
    pipeline,
    metrics,
    logger: silentLogger,
    clock,
    random: systemRandom,
    settings: defaultHttpSettings,
    answers: new ByteBudget('answers_bytes', 1024 ** 3),
    gate,
    tracer,
    lifecycle,
    version: '0.0.0',
  });
  const { methods } = service;
  const server = await openGrpcServer({ host, port, methods, clock, random: systemRandom, ...grpc });
  return {
    server,
    service,
    lifecycle,
    metrics,
    bodies,
    stopped: () => stopped,
    held: () => hold?.count ?? 0,
    names: [...leave.keys()],
    remove: async (model) => {
      await leave.get(model)?.();
    },
    kill: async (worker) => {
      await servers[worker]?.close();
    },
    close: async () => {
      await server.close(0);
      models.close();
      pipeline.close();
      await Promise.all([plane.close(), discovery.close()]);
    },
  };
}

function cardOf(name: string, model: Partial<ModelCard>): ModelCard {
  return {
    display_name: name,
    slug: name,
    files: {},
    kv_cache_block_size: 16,
    model_type: [],
    model_input: 'Text',
    worker_type: 'aggregated',
    needs: [],
    aliases: [],
    runtime_config: {},
    ...model,
  };
}
