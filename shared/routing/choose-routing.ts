import { lookup } from 'node:dns/promises';
import type { Clock } from '../clock/index.ts';
import { ConfigError, type EdgeSettings } from '../config/index.ts';
import type { Discovery } from '../discovery/index.ts';
import { reasonOf, ServeError } from '../errors/index.ts';
import { readPlaneTls, refuseClearToken } from '../fleet/index.ts';
import { type ExplanationSource, FollowedPools, type RoutableModel, type Worker } from '../pipeline/index.ts';
import type { PlaneClientTls } from '../planes/request/index.ts';
import type { BusyLimits } from '../router/feed/index.ts';
import type { RoutableWorker, Router, WorkerPool } from '../router/index.ts';
import {
  createFallbackMetrics,
  createResidentRouter,
  createStatelessRouter,
  queryOf,
  type ResidentAddress,
  ResidentClient,
  type ResidentLine,
  watchResidents,
  watchResidentUrls,
} from '../router/service/index.ts';
import { FleetReader, type FleetWorker, type RouterState } from '../router/state/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { RoutingParts } from './feeds/index.ts';
import type { KvRouting } from './kv-routing.ts';
import type { Routing } from './routing.ts';

const WATCH_MS_MAX = 15_000;

export interface ChooseRoutingOptions {
  /** Whether resident routers are asked, or hashing alone decides. */
  readonly asksResidents: boolean;
  /** Routing by an index of this process. @default none */
  readonly embedded: KvRouting | undefined;
  /** Where fleet items are read. @default none */
  readonly state: RouterState | undefined;
}

/** Lets resident routers decide, and decides without one where none answers: what functions do. */
export async function openChooseRouting(
  settings: EdgeSettings,
  parts: RoutingParts,
  { asksResidents, embedded, state }: ChooseRoutingOptions,
): Promise<Routing> {
  const { plane, discovery, logger, metrics, clock, random } = parts;
  const log = logger.for('router');
  const { routerChooseTimeoutMs, routerConnectTimeoutMs, inhibitedDurationSecs } = settings;
  const inhibitedMs = inhibitedDurationSecs * 1000;
  const fleets =
    state && new Fleets(parts, state, settings.fleetItemIntervalMs, (reason) => log.debug('fleet item', { reason }));
  const stateless = createStatelessRouter<Worker>({
    clock,
    inhibitedMs,
    fleetOf: (workers) => fleets?.of(workers as readonly Worker[]), // the pipeline routes to its own workers
  });
  const client = new ResidentClient({
    plane,
    clock,
    random,
    ...(routerChooseTimeoutMs === undefined ? {} : { chooseTimeoutMs: routerChooseTimeoutMs }),
    ...(routerConnectTimeoutMs === undefined ? {} : { connectTimeoutMs: routerConnectTimeoutMs }),
    grpcLine: asksResidents ? await loadGrpcLine(settings, clock) : undefined,
  });
  const namespace = settings.namespace ?? 'dynamo';
  const onChange = (residents: readonly ResidentAddress[]): void => client.setResidents(residents);
  const watch = asksResidents ? await follow(settings, { namespace, discovery, onChange, log, clock }) : undefined;
  await client.open(); // bounded by itself; requests never wait for a connection
  const router = asksResidents
    ? createResidentRouter({
        client,
        embedded,
        stateless,
        inhibitedMs,
        clock,
        metrics: createFallbackMetrics(metrics.registry),
        logger: log,
      })
    : stateless;
  return new ChooseRouting(router, explanationsOf(client, embedded), embedded, async () => {
    await watch?.close();
    client.close();
  });
}

/** What speaks gRPC, where a URL asks for it: a function that starts cold pays for every module that it loads. */
async function loadGrpcLine(
  settings: EdgeSettings,
  clock: Clock,
): Promise<((place: string) => ResidentLine) | undefined> {
  const { routerUrl = [], planeToken: secret } = settings;
  const urls = routerUrl.filter(isGrpc);
  if (urls.length === 0) return undefined;
  let known = readPlaneTls(settings)?.client;
  for (const url of known === undefined ? urls : []) {
    const remedies = ['set DYN_TCP_TLS_CA_CERT_PATH'];
    const refusal = refuseClearToken(settings, {
      what: `STATOR_ROUTER_URL ${url} would be shown`,
      host: new URL(url).hostname,
      remedies,
    });
    if (refusal !== undefined) throw new ConfigError([refusal]);
  }
  const tls = (): PlaneClientTls | undefined => {
    try {
      known = readPlaneTls(settings)?.client;
    } catch {
      // A file is away while it is replaced: what was there stands.
    }
    return known;
  };
  const { openRouterLine } = await import('../router/grpc/index.ts');
  return (place) => openRouterLine(place, clock, { secret, tls });
}

function isGrpc(url: string): boolean {
  return url.startsWith('grpc:');
}

interface Following {
  readonly clock: Clock;
  readonly namespace: string;
  readonly discovery: Discovery;
  readonly onChange: (residents: readonly ResidentAddress[]) => void;
  readonly log: Logger;
}

/** The resident routers: those at the URLs that the settings name, or those in discovery. */
function follow(
  settings: EdgeSettings,
  { namespace, discovery, onChange, log, clock }: Following,
): Promise<{ close(): void }> {
  const { routerUrl: urls = [], tcpTlsCaCertPath } = settings;
  if (urls.length === 0) return watchResidents(discovery, namespace, onChange, AbortSignal.timeout(WATCH_MS_MAX));
  const isTcp = settings.requestPlane === 'tcp';
  const unfit = urls.find((url) => new URL(url).port === '' || !(isTcp || isGrpc(url)));
  if (unfit !== undefined) {
    throw new ConfigError([
      'STATOR_ROUTER_URL takes tcp://host:port, the DYN_TCP_RPC_PORT of a resident router, with --request-plane tcp, ' +
        `or grpc://host:port, its STATOR_ROUTER_GRPC_PORT; got ${JSON.stringify(unfit)}`,
    ]);
  }
  const onProblem = (url: string, reason: unknown): void =>
    log.warn('resident router not found', { url, reason: reasonOf(reason) });
  // A certificate is for the name, so a name that has several addresses stays one.
  const resolve = async (host: string): Promise<readonly string[]> =>
    tcpTlsCaCertPath === undefined ? (await lookup(host, { all: true })).map(({ address }) => address) : [host];
  return watchResidentUrls({ urls, namespace, clock, resolve, onChange, onProblem });
}

/** Whoever made a decision explains it: a resident, or this process. */
function explanationsOf(client: ResidentClient, embedded: KvRouting | undefined): ExplanationSource {
  return {
    explained: async (requestId) =>
      (await client.explain(requestId)) ?? (await embedded?.explanations.explained(requestId)),
    explain: async (request) => {
      const explanation = (await client.explain(queryOf(request))) ?? (await embedded?.explanations.explain(request));
      if (explanation !== undefined) return explanation;
      throw new ServeError('service_unavailable', 'No router answers that could explain its decisions');
    },
  };
}

class ChooseRouting implements Routing {
  readonly router: Router<Worker>;
  readonly #pools: FollowedPools;
  readonly explanations: ExplanationSource;
  readonly #embedded: Routing | undefined;
  readonly #close: () => Promise<void>;

  constructor(
    router: Router<Worker>,
    explanations: ExplanationSource,
    embedded: Routing | undefined,
    close: () => Promise<void>,
  ) {
    this.router = router;
    this.#pools = new FollowedPools(router);
    this.explanations = explanations;
    this.#embedded = embedded;
    this.#close = close;
  }

  /** A process that follows no loads leaves the limits to the resident, which knows them. */
  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    return this.#embedded?.busyWorkers(workers, limits);
  }

  reused(pool: WorkerPool, tokens: number): void {
    this.#embedded?.reused(pool, tokens);
  }

  follow(models: readonly RoutableModel[]): void {
    this.#embedded?.follow(models); // removes its pools by itself, with what belongs to them
    this.#pools.follow(models);
  }

  async close(): Promise<void> {
    await this.#close();
    await this.#embedded?.close();
  }
}

/** The reader of a pool's fleet, and the workers that discovery gave last. */
interface PoolReader {
  workers: readonly Worker[];
  readonly reader: FleetReader;
}

/** The fleet items of the endpoints that this process calls. */
class Fleets {
  readonly #parts: Pick<RoutingParts, 'clock' | 'random'>;
  readonly #state: RouterState;
  readonly #cacheMs: number | undefined;
  readonly #onProblem: (reason: string) => void;
  readonly #readers = new Map<string, PoolReader>(); // by endpoint

  constructor(
    parts: Pick<RoutingParts, 'clock' | 'random'>,
    state: RouterState,
    cacheMs: number | undefined,
    onProblem: (reason: string) => void,
  ) {
    this.#parts = parts;
    this.#state = state;
    this.#cacheMs = cacheMs;
    this.#onProblem = onProblem;
  }

  of(workers: readonly Worker[]): FleetReader | undefined {
    const [first] = workers;
    if (first === undefined) return undefined;
    const known = this.#readers.get(first.endpoint) ?? this.#open(first, workers);
    known.workers = workers;
    return known.reader;
  }

  #open({ endpoint, scope }: Worker, workers: readonly Worker[]): PoolReader {
    const reader = new FleetReader({
      state: this.#state,
      pool: { ...scope, endpoint: endpoint.slice(endpoint.lastIndexOf('.') + 1) },
      clock: this.#parts.clock,
      random: this.#parts.random,
      ...(this.#cacheMs === undefined ? {} : { cacheMs: this.#cacheMs }),
      // Discovery has just been read for this request.
      queryLeases: async () => entry.workers.map((worker) => unloaded(worker, this.#state.nowMs())),
      onProblem: (problem) => this.#onProblem(reasonOf(problem)),
    });
    const entry: PoolReader = { workers, reader };
    this.#readers.set(endpoint, entry);
    return entry;
  }
}

/** A worker of which nothing is known but that it lives. */
function unloaded({ id, dataParallelStartRank, dataParallelSize }: RoutableWorker, nowMs: number): FleetWorker {
  const load = { requests: 0, decodeBlocks: 0, prefillTokens: 0 };
  return {
    id,
    address: '',
    aliveUntilMs: nowMs,
    isAvailable: true,
    load,
    kvUsedShare: 0,
    dataParallelStartRank,
    dataParallelSize,
  };
}
