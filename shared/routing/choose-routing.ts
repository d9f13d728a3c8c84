import { lookup } from 'node:dns/promises';
import type { Clock } from '../clock/index.ts';
import type { Lifetime } from '../concurrency/index.ts';
import { ConfigError, type EdgeSettings } from '../config/index.ts';
import type { Discovery, FleetLoads } from '../discovery/index.ts';
import { reasonOf, ServeError } from '../errors/index.ts';
import { refuseClearToken } from '../fleet/index.ts';
import { type ExplanationSource, FollowedPools, type RoutableModel, type Worker } from '../pipeline/index.ts';
import { type PlaneClientTls, type RequestPlane, readPlaneTls, type Transport } from '../planes/index.ts';
import type { Router, WorkerPool } from '../router/index.ts';
import {
  createFallbackMetrics,
  queryOf,
  type ResidentAddress,
  ResidentClient,
  type ResidentLine,
  ResidentRouter,
  watchResidents,
  watchResidentUrls,
} from '../router-service/index.ts';
import {
  type AskOptions,
  createAskMetrics,
  QUOTE_ENDPOINT,
  StatelessRouter,
  WorkerAsker,
} from '../stateless-router/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { BusyLimits } from '../worker-events/index.ts';
import type { Routing, RoutingDeps } from './feeds.ts';
import type { KvRouting } from './kv-routing.ts';

const WATCH_MS_MAX = 15_000;

export interface ChooseRoutingOptions {
  /** Whether this process asks resident routers; otherwise only hashing decides. */
  readonly asksResidents: boolean;
  /** Routing by an index of this process. @default none */
  readonly embedded: KvRouting | undefined;
  /** Lifetime of `embedded`, which ends with the routing. */
  readonly lifetime: Lifetime;
}

/** Opens the routing of functions: resident routers decide, or this process if none answers. */
export async function openChooseRouting(
  settings: EdgeSettings,
  deps: RoutingDeps,
  { asksResidents, embedded, lifetime }: ChooseRoutingOptions,
): Promise<Routing> {
  const { plane, discovery, logger, metrics, clock, random, inhibition } = deps;
  const log = logger.for('router');
  const { routerChooseTimeoutMs, routerConnectTimeoutMs } = settings;
  let loads: FleetLoads = new Map();
  lifetime.use(
    discovery.watchLoads((now) => {
      loads = now;
    }),
  );
  const stateless = new StatelessRouter<Worker>({
    clock,
    inhibition,
    loads: () => loads,
    asker: askOptions(settings, deps),
  });
  const grpcLine = asksResidents ? await loadGrpcLine(settings, clock) : undefined;
  const client = lifetime.use(
    new ResidentClient({
      plane,
      clock,
      random,
      ...(routerChooseTimeoutMs === undefined ? {} : { chooseTimeoutMs: routerChooseTimeoutMs }),
      ...(routerConnectTimeoutMs === undefined ? {} : { connectTimeoutMs: routerConnectTimeoutMs }),
      grpcLine,
    }),
  );
  const namespace = settings.namespace ?? 'dynamo';
  const onChange = (residents: readonly ResidentAddress[]): void => client.setResidents(residents);
  if (asksResidents) await lifetime.use(follow(settings, { namespace, discovery, plane, onChange, log, clock }));
  await client.open(); // has its own deadline; requests never wait for a connection
  const router = asksResidents
    ? new ResidentRouter({
        client,
        embedded,
        stateless,
        inhibition,
        metrics: createFallbackMetrics(metrics.registry),
        logger: log,
      })
    : stateless;
  return new ChooseRouting(router, explanationsOf(client, embedded), embedded, lifetime);
}

/** Returns the options for asking workers for quotes. Only workers that give quotes serve the endpoint. */
function askOptions(
  { routerAskedWorkers: workersMax = 0, routerAskTimeoutMs: timeoutMs }: EdgeSettings,
  { plane, clock, random, metrics }: RoutingDeps,
): AskOptions<Worker> | undefined {
  if (workersMax < 2) return undefined;
  const places = new WeakMap<Worker, Transport>();
  const transportOf = (worker: Worker): Transport | undefined => {
    if (!(worker.publishesKvEvents && worker.hasLocalIndexer)) return undefined;
    const known = places.get(worker);
    if (known !== undefined) return known;
    const place = plane.sibling(worker.transport, QUOTE_ENDPOINT);
    if (place !== undefined) places.set(worker, place);
    return place;
  };
  const asker = new WorkerAsker({
    plane,
    clock,
    random,
    timeoutMs,
    transportOf,
    metrics: createAskMetrics(metrics.registry),
  });
  return { asker, workersMax };
}

/** Loads the gRPC client only if a URL requires it: a function pays for each module that it loads at a cold start. */
async function loadGrpcLine(
  settings: EdgeSettings,
  clock: Clock,
): Promise<((place: string) => ResidentLine) | undefined> {
  const { routerUrl = [], planeToken: secret, planeTokenPrevious } = settings;
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
      // The file is absent while it is being replaced; the earlier certificate then stays in use.
    }
    return known;
  };
  const { RouterLine } = await import('../router-service/index.ts');
  const previousSecret = planeTokenPrevious ?? undefined;
  return (place) => new RouterLine(place, clock, { secret, previousSecret, tls });
}

function isGrpc(url: string): boolean {
  return url.startsWith('grpc:');
}

interface Following {
  readonly clock: Clock;
  readonly namespace: string;
  readonly discovery: Discovery;
  readonly plane: RequestPlane;
  readonly onChange: (residents: readonly ResidentAddress[]) => void;
  readonly log: Logger;
}

/** Follows the resident routers: those at the URLs of the settings, or those in discovery. */
function follow(
  settings: EdgeSettings,
  { namespace, discovery, plane, onChange, log, clock }: Following,
): Promise<{ close(): void }> {
  const { routerUrl: urls = [], tcpTlsCaCertPath } = settings;
  if (urls.length === 0) return watchResidents(discovery, namespace, onChange, AbortSignal.timeout(WATCH_MS_MAX));
  const unfit = urls.find((url) => new URL(url).port === '' || !(plane.at !== undefined || isGrpc(url)));
  if (unfit !== undefined) {
    throw new ConfigError([
      'STATOR_ROUTER_URL takes tcp://host:port, the DYN_TCP_RPC_PORT of a resident router, with --request-plane tcp, ' +
        `or grpc://host:port, its STATOR_ROUTER_GRPC_PORT; got ${JSON.stringify(unfit)}`,
    ]);
  }
  const onProblem = (url: string, reason: unknown): void =>
    log.warn('resident router not found', { url, reason: reasonOf(reason) });
  // A certificate is for the name, so a name with several addresses is not resolved.
  const resolve = async (host: string): Promise<readonly string[]> =>
    tcpTlsCaCertPath === undefined ? (await lookup(host, { all: true })).map(({ address }) => address) : [host];
  return watchResidentUrls({ urls, namespace, plane, clock, resolve, onChange, onProblem });
}

/** Returns the source of explanations: the resident that made the decisions, or this process. */
function explanationsOf(client: ResidentClient, embedded: KvRouting | undefined): ExplanationSource {
  return {
    explained: async (requestId) =>
      (await client.explain(requestId)) ?? (await embedded?.explanations.explained(requestId)),
    explain: async (request) => {
      const explanation = (await client.explain(queryOf(request))) ?? (await embedded?.explanations.explain(request));
      if (explanation !== undefined) return explanation;
      throw new ServeError('service_unavailable', 'No router that could explain its decisions answers');
    },
  };
}

class ChooseRouting implements Routing {
  readonly router: Router<Worker>;
  readonly #pools: FollowedPools;
  readonly explanations: ExplanationSource;
  readonly cacheOf: Routing['cacheOf'];
  readonly peers: Routing['peers'];
  readonly #embedded: Routing | undefined;
  readonly #lifetime: Lifetime;

  constructor(
    router: Router<Worker>,
    explanations: ExplanationSource,
    embedded: Routing | undefined,
    lifetime: Lifetime,
  ) {
    this.router = router;
    this.#pools = new FollowedPools(router);
    this.explanations = explanations;
    this.cacheOf = embedded?.cacheOf?.bind(embedded);
    this.peers = embedded?.peers?.bind(embedded);
    this.#embedded = embedded;
    this.#lifetime = lifetime;
  }

  /** Returns undefined in a process that does not follow loads: the resident follows them and applies the limits. */
  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    return this.#embedded?.busyWorkers(workers, limits);
  }

  reused(pool: WorkerPool, tokens: number): void {
    this.#embedded?.reused(pool, tokens);
  }

  follow(models: readonly RoutableModel[]): void {
    this.#embedded?.follow(models); // also removes its pools and their state
    this.#pools.follow(models);
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }
}
