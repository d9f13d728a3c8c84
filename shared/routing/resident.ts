import { Lifetime } from '../concurrency/index.ts';
import type { EdgeSettings } from '../config/index.ts';
import { followServiceCertificate, secureService } from '../fleet/index.ts';
import type { RoutableModel } from '../pipeline/index.ts';
import { fleetHost, listenAddress, protectionOf } from '../planes/index.ts';
import type { PoolRole, Router } from '../router/index.ts';
import {
  createResidentMetrics,
  type PresentPool,
  ResidentService,
  ROUTER_COMPONENT,
  serveRouterOnPlane,
  WELL_KNOWN_INSTANCE,
} from '../router-service/index.ts';
import { LeaseHolder, type RouterState } from '../router-state/index.ts';
import type { KvRouter } from '../scheduler/index.ts';
import type { RoutingDeps } from './feeds.ts';
import type { RouterServer } from './router-server.ts';

/** Dependencies of a resident router. */
export interface ResidentDeps
  extends Pick<RoutingDeps, 'clock' | 'random' | 'metrics' | 'logger' | 'tracer' | 'onAnswering'> {
  /** Router that decides, for other processes as for this one. */
  readonly router: Pick<Router, 'choose'>;
  /** Whether the router asks a remote index before it decides. */
  readonly asksFirst: boolean;
  readonly kv: KvRouter;
  /** Returns the present models. */
  models(): readonly RoutableModel[];
  /** Returns the workers of the model above its busy limits; undefined if it has no limits. */
  busyWorkers(model: RoutableModel): ReadonlySet<string> | undefined;
  /** State shared with the other residents. @default none: this is the only one */
  readonly state: RouterState | undefined;
  /** The listener on which it answers. */
  readonly server: RouterServer;
}

/** A resident router while it serves. */
export interface Resident {
  readonly service: ResidentService;
  /** Withdraws its names, makes waiting callers decide by themselves, and gives the lease back. */
  close(): Promise<void>;
}

/** Name of the lease under which one router of a namespace answers. */
const LEASE_NAME = 'router';
const STOP_MS_MAX = 1000;
const REPORT_INTERVAL_MS = 1000;
/**
 * Number of worker reports that a new holder of the lease waits for, so that they include the requests of the previous
 * holder.
 */
const REPORTS_TO_SETTLE = 2;

/**
 * Serves `Choose` on the request plane and registers it in discovery. Rejects if the port cannot be bound, or discovery
 * cannot be written.
 */
export function openResident(settings: EdgeSettings, deps: ResidentDeps): Promise<Resident> {
  return Lifetime.compose((lifetime) => serveResident(settings, deps, lifetime));
}

async function serveResident(settings: EdgeSettings, deps: ResidentDeps, lifetime: Lifetime): Promise<Resident> {
  const { server, logger } = deps;
  const log = logger.for('router');
  const namespace = settings.namespace ?? 'dynamo';
  const { instanceId } = server;
  const answering = {
    begin: (): void => {
      deps.onAnswering?.(true);
      log.info('this router answers for the fleet');
    },
    end: (): void => {
      service.standDown();
      deps.onAnswering?.(false);
      log.info('this router no longer answers for the fleet');
    },
  };
  const lease = leaseOf(settings, deps, answering);
  const service = lifetime.use(makeService(settings, deps, lease));
  const endpoints = serveRouterOnPlane(server.plane, { instanceId, namespace }, service);
  if (server.plane.place !== undefined) {
    serveRouterOnPlane(server.plane, { instanceId: WELL_KNOWN_INSTANCE, namespace }, service); // for STATOR_ROUTER_URL
  }
  await lifetime.use(openGrpc(settings, service, deps));
  if (lease === undefined) answering.begin();
  else lease.start();
  lifetime.defer(async () => {
    if (lease === undefined) answering.end();
    else await lease.stop(AbortSignal.timeout(STOP_MS_MAX)).catch(() => {}); // it runs out by itself
  });
  lifetime.use(service); // before the lease and gRPC, so that waiting callers then decide by themselves
  lifetime.defer(() => server.withdraw(namespace, ROUTER_COMPONENT, endpoints));
  await server.register(namespace, ROUTER_COMPONENT, endpoints);
  log.info('resident router is up', { instance_id: instanceId, namespace });
  return { service, close: () => lifetime.close() };
}

/** Returns the lease under which one router of the namespace answers; undefined if this is the only one. */
function leaseOf(
  settings: EdgeSettings,
  { state, clock, random }: ResidentDeps,
  { begin, end }: { begin(): void; end(): void },
): LeaseHolder | undefined {
  if (state === undefined) return undefined;
  return new LeaseHolder({
    state,
    lease: { namespace: settings.namespace ?? 'dynamo', name: LEASE_NAME },
    clock,
    random,
    ttlMs: settings.leaseTtlSecs * 1000,
    onAcquired: begin,
    onLost: end,
    onProblem: () => {}, // the state itself reports every failure of the table
  });
}

/** Serves `Choose` by gRPC if a port is set for it. */
async function openGrpc(
  settings: EdgeSettings,
  service: ResidentService,
  { clock, random }: Pick<ResidentDeps, 'clock' | 'random'>,
): Promise<{ close(): Promise<void> } | undefined> {
  const { routerGrpcPort: port, planeToken: secret, planeTokenPrevious } = settings;
  if (port === undefined) return undefined;
  const host = listenAddress(fleetHost(settings.tcpRpcHost, settings, protectionOf(settings))).bind;
  const { tls } = secureService(settings, {
    name: "the router's gRPC service",
    host,
    remedy: 'set DYN_TCP_RPC_HOST=127.0.0.1',
  });
  const { serveRouterGrpc } = await import('../router-service/index.ts');
  const server = await serveRouterGrpc({
    service,
    host,
    port,
    clock,
    random,
    secret,
    previousSecret: planeTokenPrevious ?? undefined,
    tls,
  });
  const following = followServiceCertificate(settings, clock, tls, server.useCertificate);
  return {
    close: () => {
      following?.cancel();
      return server.close();
    },
  };
}

function makeService(settings: EdgeSettings, deps: ResidentDeps, lease: LeaseHolder | undefined): ResidentService {
  const { router, asksFirst, kv, metrics, clock, random, tracer } = deps;
  const { loadReportIntervalMs = REPORT_INTERVAL_MS, reservationTtlMs } = settings;
  const settleMs = REPORTS_TO_SETTLE * loadReportIntervalMs;
  const service: ResidentService = new ResidentService({
    router,
    asksFirst,
    kv,
    tracer,
    clock,
    random,
    ...(reservationTtlMs === undefined ? {} : { unseenMsMax: reservationTtlMs }),
    findPool: (key, role) => findPool(deps, key, role),
    isLeader: () => lease === undefined || (lease.heldMs ?? Number.NEGATIVE_INFINITY) >= settleMs,
    onExpired: createResidentMetrics(metrics.registry, () => service),
  });
  return service;
}

function findPool(
  { models, busyWorkers }: Pick<ResidentDeps, 'models' | 'busyWorkers'>,
  key: string,
  role: PoolRole,
): PresentPool | undefined {
  const model = models().find(({ pool }) => pool.key === key && pool.role === role);
  return model && { pool: model.pool, busy: busyWorkers(model) };
}
