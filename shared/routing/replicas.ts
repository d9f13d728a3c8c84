import type { Clock, Random } from '../clock/index.ts';
import type { Discovery, EventChannelRecord } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { SharedRouterState } from '../fleet/state/index.ts';
import type { RoutableModel, Worker } from '../pipeline/index.ts';
import type { EventPlane, EventPublisher } from '../planes/event/index.ts';
import { type ComponentScope, TopicFollower } from '../router/feed/index.ts';
import type { WorkerPool } from '../router/index.ts';
import {
  type Decision,
  type KvPool,
  type PeerTeller,
  poolName,
  type Scheduler,
  type SchedulingRequest,
} from '../router/scheduler/index.ts';
import {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  encodeReserved,
  LoadFollower,
  type LoadRow,
  NO_LOAD,
  type PoolAddress,
  RESERVED_HEADER,
  ReplicaSync,
  ReservationLedger,
  type RouterState,
  replicaBookings,
  SharedLoad,
} from '../router/state/index.ts';
import type { ProcessLogger, RouterMetrics } from '../telemetry/index.ts';

export interface ReplicaParts {
  readonly clock: Clock;
  readonly random: Random;
  /** Names this router among them; hex. */
  readonly routerId: string;
  /** Told when another router has come or gone: those there are now. */
  onPeers(routerIds: readonly string[]): void;
  readonly discovery: Discovery;
  readonly eventPlane: EventPlane;
  /** The table of shared counters. @default none: replicas hear of each other by events alone */
  readonly shared: SharedRouterState | undefined;
  readonly logger: ProcessLogger;
  readonly routerMetrics: Pick<RouterMetrics, 'peerBookingUnremembered'>;
  /** Worker sets of the router. */
  pools(): readonly KvPool[];
}

/** Where the requests of a worker are told. */
interface WorkerPlace {
  readonly component: ComponentLink;
  readonly endpoint: EndpointLoads | undefined;
}

const RETRY_MS = 1000;
const OPEN_MS_MAX = 15_000;
const CLOSE_MS_MAX = 1000;

/**
 * Keeps the loads of this router and of those beside it alike (`--router-replica-sync`; design, "Counters, and replica
 * sync"): tells them of every request over the event plane, and through the counters of the table, which are slower and
 * forget nothing.
 */
export class Replicas implements PeerTeller {
  readonly #parts: ReplicaParts;
  readonly #components = new Map<string, ComponentLink>();
  #peers: ReadonlySet<string> = new Set();
  readonly #endpoints = new Map<string, EndpointLoads>();
  readonly #closing = new Set<Promise<void>>();
  #places = new Map<string, WorkerPlace>();

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
  }

  /** The models as they are now. */
  follow(models: readonly RoutableModel[]): void {
    const places = new Map<string, WorkerPlace>();
    for (const { workers } of models) for (const worker of workers) places.set(worker.id, this.#placeOf(worker));
    for (const [id, { endpoint }] of this.#places) if (!places.has(id)) endpoint?.ledger.forget(id);
    this.#places = places;
    this.#closeUnused(this.#components, new Set(Array.from(places.values(), ({ component }) => component)));
    this.#closeUnused(this.#endpoints, new Set(Array.from(places.values(), ({ endpoint }) => endpoint)));
  }

  booked(
    pool: WorkerPool,
    decision: Decision,
    request: SchedulingRequest,
  ): Readonly<Record<string, string>> | undefined {
    const place = this.#places.get(decision.workerId);
    if (place === undefined) return undefined;
    const { prefillTokens, prefillMs, dpRank, workerId } = decision;
    const { sequence } = request.hashes;
    place.component.tell(pool, decision, {
      kind: 'added',
      sequenceHashes: request.activeHashes ?? sequence,
      tracksPrefillTokens: prefillTokens > 0,
      expectedOutputTokens: request.expectedOutputTokens,
      prefillTokens,
      expectedPrefillMs: prefillMs,
    });
    if (place.endpoint === undefined) return undefined;
    const amounts = { requests: 1, decodeBlocks: sequence.length >> 1, prefillTokens };
    place.endpoint.ledger.reserve({ workerId, dpRank }, amounts);
    return { [RESERVED_HEADER]: encodeReserved({ dpRank, amounts }) };
  }

  prefillDone(pool: WorkerPool, decision: Decision): void {
    this.#places.get(decision.workerId)?.component.tell(pool, decision, { kind: 'prefill_done' });
  }

  ended(pool: WorkerPool, decision: Decision): void {
    this.#places.get(decision.workerId)?.component.tell(pool, decision, { kind: 'freed' });
  }

  async close(): Promise<void> {
    this.follow([]);
    await Promise.all(this.#closing);
  }

  #closeUnused<Part extends { close(): Promise<void> }>(parts: Map<string, Part>, used: ReadonlySet<unknown>): void {
    for (const [name, part] of parts) {
      if (used.has(part)) continue;
      parts.delete(name);
      const closing = part.close().then(
        () => void this.#closing.delete(closing),
        (thrown: unknown) => this.#parts.logger.for('router').warn('not closed', { name, reason: reasonOf(thrown) }),
      );
      this.#closing.add(closing);
    }
  }

  /** Routers of several components may differ: whoever places requests in one of them counts. */
  #gatherPeers(): void {
    const peers = new Set([...this.#components.values()].flatMap((link) => [...link.peers]));
    if (peers.size === this.#peers.size && [...peers].every((id) => this.#peers.has(id))) return;
    this.#peers = peers;
    this.#parts.onPeers([...peers].sort());
  }

  #placeOf({ scope, endpoint: path }: Worker): WorkerPlace {
    const { namespace, component } = scope;
    const name = `${namespace}.${component}`;
    const link = this.#components.get(name) ?? new ComponentLink(scope, this.#parts, () => this.#gatherPeers());
    this.#components.set(name, link);
    const { shared } = this.#parts;
    if (shared === undefined) return { component: link, endpoint: undefined };
    const address = { namespace, component, endpoint: path.slice(name.length + 1) };
    const loads = this.#endpoints.get(path) ?? new EndpointLoads(address, shared, this.#parts);
    this.#endpoints.set(path, loads);
    return { component: link, endpoint: loads };
  }
}

/** What the routers of one component tell each other. */
class ComponentLink {
  readonly #scope: ComponentScope;
  readonly #parts: ReplicaParts;
  readonly #stopping = new AbortController();
  readonly #opened: Promise<void>;
  readonly #onPeers: () => void;
  /** Ids of the other routers. */
  peers: ReadonlySet<string> = new Set();
  #publisher: EventPublisher | undefined;
  #record: EventChannelRecord | undefined;
  #sync: ReplicaSync | undefined;
  #follower: TopicFollower | undefined;

  constructor(scope: ComponentScope, parts: ReplicaParts, onPeers: () => void) {
    this.#scope = scope;
    this.#onPeers = onPeers;
    this.#parts = parts;
    this.#opened = this.#open();
  }

  tell(pool: WorkerPool, { requestId, workerId, dpRank }: Decision, change: ActiveSequenceChange): void {
    this.#sync?.tell({ requestId, workerId, dpRank, loraName: pool.model, change });
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Error('replicas are told no more'));
    await this.#opened;
    this.#sync?.close();
    await this.#follower?.close();
    if (this.#record !== undefined) {
      const withdrawn = this.#parts.discovery.remove(this.#record, AbortSignal.timeout(CLOSE_MS_MAX));
      await withdrawn.catch(() => {}); // it ends with the lease of this process
    }
    await this.#publisher?.close();
  }

  async #open(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#tryOpen(AbortSignal.any([signal, AbortSignal.timeout(OPEN_MS_MAX)]));
        return;
      } catch (thrown) {
        if (signal.aborted) return;
        this.#parts.shared?.watch.failed('replicas', reasonOf(thrown));
        await this.#parts.clock.sleep(RETRY_MS, signal).catch(() => undefined); // ends early when it is closed
      }
    }
  }

  async #tryOpen(signal: AbortSignal): Promise<void> {
    const { discovery, eventPlane, logger, shared, routerId, routerMetrics, clock } = this.#parts;
    const scope = { kind: 'component', ...this.#scope } as const;
    const publisher = this.#publisher ?? (await eventPlane.publisher(scope, ACTIVE_SEQUENCES_TOPIC));
    this.#publisher = publisher;
    const { publisherId, transport } = publisher;
    const apply = (event: ActiveSequenceEvent): void => this.#apply(event);
    const onFull = (): void => routerMetrics.peerBookingUnremembered();
    const sync = this.#sync ?? new ReplicaSync({ publisher, routerId, clock, apply, onFull });
    this.#sync = sync;
    this.#follower ??= new TopicFollower({
      eventPlane,
      discovery,
      clock,
      logger: logger.for('router'),
      scope,
      topic: ACTIVE_SEQUENCES_TOPIC,
      listener: {
        event: ({ payload }) => {
          shared?.watch.succeeded('replicas');
          sync.receive(payload);
        },
        gap: (lossy) => this.#forget(this.#follower?.workerOf(lossy)), // the end of a request may be among what is lost
      },
      onPublishers: (routerIds) => this.#setPeers(routerIds),
    });
    const record: EventChannelRecord = {
      type: 'EventChannel',
      scope,
      topic: ACTIVE_SEQUENCES_TOPIC,
      instance_id: publisherId,
      transport,
      worker_id: routerId,
    };
    await discovery.put(record, signal);
    this.#record = record;
  }

  #setPeers(routerIds: ReadonlySet<string>): void {
    const before = this.peers;
    this.peers = new Set([...routerIds].filter((id) => id !== this.#parts.routerId));
    for (const id of before) if (!this.peers.has(id)) this.#forget(id);
    this.#onPeers();
  }

  #forget(routerId: string | undefined): void {
    if (routerId !== undefined) this.#sync?.forgetPeers(routerId);
  }

  /** To the worker set of the same model, and failing that to any that the worker is in. */
  #apply(event: ActiveSequenceEvent): void {
    const has = ({ ranks }: KvPool): boolean => ranks.find(event.workerId, event.dpRank) !== undefined;
    const pools = this.#parts.pools().filter(has);
    const found = pools.find(({ pool }) => pool.model === event.loraName) ?? pools[0];
    if (found !== undefined) replicaBookings(found.scheduler, found.pool.blockSizeTokens)(event);
  }
}

/** The counters of one endpoint: what this router reserves there, and what the others have. */
class EndpointLoads {
  readonly ledger: ReservationLedger;
  readonly #follower: LoadFollower;
  readonly #views = new WeakMap<Scheduler, SharedLoad>(); // by worker set, as long as it lives
  readonly #name: string;
  readonly #shared: SharedRouterState;
  readonly #pools: () => readonly KvPool[];
  readonly #unattributed = new Map<string, number>(); // requests, by set and rank

  constructor(pool: PoolAddress, shared: SharedRouterState, { clock, random, pools }: ReplicaParts) {
    this.#name = `${pool.component}/${pool.endpoint}`;
    this.#shared = shared;
    this.#pools = pools;
    const { state }: { readonly state: RouterState } = shared;
    const onProblem = (): void => {}; // the state tells of its failures by itself
    const common = { state, pool, clock, random, onProblem };
    this.ledger = new ReservationLedger(common);
    this.#follower = new LoadFollower({ ...common, onLoads: (rows) => this.#observe(rows) });
    this.#follower.start();
  }

  async close(): Promise<void> {
    await this.#follower.stop();
    await this.ledger.close(CLOSE_MS_MAX);
  }

  #observe(rows: readonly LoadRow[]): void {
    for (const kv of this.#pools()) {
      const own = rows.filter(({ rank }) => kv.ranks.find(rank.workerId, rank.dpRank) !== undefined);
      const name = poolName(kv.pool);
      if (own.length > 0 || this.#views.has(kv.scheduler)) this.#viewOf(name, kv).observe(own);
    }
    let requests = 0;
    for (const count of this.#unattributed.values()) requests += count;
    this.#shared.watch.metrics.unattributedRequests(this.#name, requests);
  }

  #viewOf(name: string, { scheduler }: KvPool): SharedLoad {
    const known = this.#views.get(scheduler);
    if (known !== undefined) return known;
    const view = new SharedLoad({
      knownLoad: ({ workerId, dpRank }) => scheduler.bookedLoad(workerId, dpRank) ?? NO_LOAD,
      setUnattributedLoad: ({ workerId, dpRank }, amounts) => {
        scheduler.setUnattributedLoad(workerId, dpRank, amounts);
        const key = `${name} ${workerId}/${dpRank}`;
        if (amounts.requests === 0) this.#unattributed.delete(key);
        else this.#unattributed.set(key, amounts.requests);
      },
    });
    this.#views.set(scheduler, view);
    return view;
  }
}
