import type { Clock, Timer } from '../clock/index.ts';
import { Lifetime, withDeadline } from '../concurrency/index.ts';
import type { Discovery, EventChannelRecord, FleetLoads, Watch } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { PartWatch } from '../fleet/index.ts';
import type { RoutableModel, Worker } from '../pipeline/index.ts';
import type { EventPlane, EventPublisher } from '../planes/index.ts';
import { BoundedMap } from '../records/index.ts';
import { poolName, type WorkerPool } from '../router/index.ts';
import {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  REPORT_AGE_S,
  ReplicaSync,
  replicaBookings,
  UnattributedLoad,
} from '../router-state/index.ts';
import type { Decision, KvPool, PeerTeller, QueuePlace, SchedulingRequest } from '../scheduler/index.ts';
import type { RouterMetrics } from '../telemetry/index.ts';
import { eventScopeOf, type FeedScope, scopeName, TopicFollower } from '../worker-events/index.ts';
import type { RoutingDeps } from './feeds.ts';

interface PeerLoadsOptions {
  readonly clock: Clock;
  readonly discovery: Pick<Discovery, 'watchLoads'>;
  /** Worker sets of the router. */
  pools(): readonly KvPool[];
  readonly metrics: Pick<RouterMetrics, 'unattributedRequests'>;
}

const TICKS_A_SECOND = 4;
const SECOND_MS = 1000;

/** Load that other routers bring to the workers of this router, computed from the loads in the workers' leases. */
class PeerLoads {
  readonly #options: PeerLoadsOptions;
  readonly #views = new Map<string, { readonly of: KvPool; readonly load: UnattributedLoad }>(); // by worker set
  readonly #timer: Timer;
  readonly #watch: Watch;
  #said: FleetLoads = new Map();
  #isNew = false;
  /** Seconds since the last read. */
  #ageS = 0;
  #ticks = 0;

  constructor(options: PeerLoadsOptions) {
    this.#options = options;
    this.#watch = options.discovery.watchLoads((said) => {
      this.#said = said;
      this.#isNew = true;
    });
    this.#timer = options.clock.every(SECOND_MS / TICKS_A_SECOND, () => this.#tick());
  }

  /** Notes that this router, or another that it hears, has booked a request. */
  booked(pool: WorkerPool, workerId: string, dpRank: number): void {
    this.#views.get(poolName(pool))?.load.booked(workerId, dpRank);
  }

  close(): void {
    this.#watch.close();
    this.#timer.cancel();
  }

  /**
   * Compares after each new read. Without a new read, it compares each second, until the last read is too old to
   * contain requests of this router.
   */
  #tick(): void {
    const isSecond = ++this.#ticks % TICKS_A_SECOND === 0;
    if (isSecond) {
      this.#ageS++;
      for (const { load } of this.#views.values()) load.tick();
    }
    if (!this.#isNew && !(isSecond && this.#ageS <= REPORT_AGE_S + 1)) return;
    if (this.#isNew) this.#ageS = 0;
    this.#isNew = false;
    this.#observe();
  }

  #observe(): void {
    const present = new Set<string>();
    let requests = 0;
    for (const pool of this.#options.pools()) {
      const name = poolName(pool.pool);
      present.add(name);
      const known = this.#views.get(name);
      const view = known?.of === pool ? known : { of: pool, load: new UnattributedLoad(pool.scheduler) };
      this.#views.set(name, view);
      view.load.observe(this.#said);
      requests += view.load.requests;
    }
    for (const name of this.#views.keys()) if (!present.has(name)) this.#views.delete(name);
    this.#options.metrics.unattributedRequests(requests);
  }
}

interface ReplicaDeps extends Pick<RoutingDeps, 'clock' | 'discovery' | 'logger'> {
  /** Id of this router among them, hex. */
  readonly routerId: string;
  /** Called with the present other routers when one has come or gone. */
  onPeers(routerIds: readonly string[]): void;
  readonly eventPlane: EventPlane;
  /** Called when replicas cannot be followed. @default no call */
  readonly watch: PartWatch | undefined;
  readonly routerMetrics: Pick<RouterMetrics, 'peerBookingUnremembered' | 'unattributedRequests'>;
  /** Worker sets of the router. */
  pools(): readonly KvPool[];
}

type ToldRequest = Pick<Decision, 'requestId' | 'workerId' | 'dpRank'>;

const NO_BOOKINGS: ReadonlyMap<string, number> = new Map();
const RETRY_MS = 1000;
const OPEN_MS_MAX = 15_000;
const CLOSE_MS_MAX = 1000;
/** Publishers of one component whose routers are known: as many as a broker's subscription follows. */
const ROUTERS_MAX = 4096;

/**
 * Keeps the loads of this router equal to those of other routers (`--router-replica-sync`). It reports every request to
 * them over the event plane. The loads that workers report make up for lost messages; they are slower, but complete.
 */
export class Replicas implements PeerTeller {
  readonly #deps: ReplicaDeps;
  readonly #components = new Map<string, ComponentLink>();
  #peers: ReadonlySet<string> = new Set();
  readonly #closing = new Set<Promise<void>>();
  readonly #loads: PeerLoads;
  /** Link for the requests of each worker. */
  #places = new Map<string, ComponentLink>();

  constructor(deps: ReplicaDeps) {
    this.#deps = deps;
    this.#loads = new PeerLoads({ ...deps, metrics: deps.routerMetrics });
  }

  /** Milliseconds from a booking until other routers hear of it, in the slowest component; undefined without one. */
  get lagMs(): number | undefined {
    let slowest: number | undefined;
    for (const { lagMs } of this.#components.values()) {
      if (lagMs !== undefined && lagMs > (slowest ?? 0)) slowest = lagMs;
    }
    return slowest; // without arrays, because every decision reads it
  }

  /** Whether no router of Dynamo takes part: it would not understand that a booking may move. */
  get decidesTwice(): boolean {
    for (const { isDynamo } of this.#components.values()) if (isDynamo) return false;
    return this.#components.size > 0;
  }

  /** Sets the present models. */
  follow(models: readonly RoutableModel[]): void {
    const places = new Map<string, ComponentLink>();
    for (const { workers } of models) for (const worker of workers) places.set(worker.id, this.#placeOf(worker));
    this.#places = places;
    this.#closeUnused(new Set(places.values()));
  }

  booked(pool: WorkerPool, decision: Decision, request: SchedulingRequest, isProvisional: boolean): void {
    const { prefillTokens, prefillMs, dpRank, workerId } = decision;
    this.#loads.booked(pool, workerId, dpRank);
    this.#places.get(workerId)?.tell(pool, decision, {
      kind: 'added',
      sequenceHashes: request.activeHashes ?? request.hashes.sequence,
      tracksPrefillTokens: prefillTokens > 0,
      expectedOutputTokens: request.expectedOutputTokens,
      prefillTokens,
      expectedPrefillMs: prefillMs,
      isProvisional,
    });
  }

  prefillDone(pool: WorkerPool, decision: Decision): void {
    this.#places.get(decision.workerId)?.tell(pool, decision, { kind: 'prefill_done' });
  }

  ended(pool: WorkerPool, decision: ToldRequest): void {
    this.#places.get(decision.workerId)?.tell(pool, decision, { kind: 'freed' });
  }

  waits(pool: WorkerPool, place: QueuePlace, request: SchedulingRequest): void {
    const { uncachedTokens, waitedMs } = place;
    const { expectedOutputTokens, priorityJump, strictPriority } = request;
    const sequenceHashes = request.hashes.sequence;
    const wishes = { expectedOutputTokens, priorityJump, strictPriority };
    this.#places.get(place.workerId)?.tell(pool, place, {
      kind: 'waits',
      ...{ sequenceHashes, uncachedTokens, waitedMs, ...wishes },
    });
  }

  /** Returns the other routers, each with its requests at the workers. */
  get bookings(): ReadonlyMap<string, number> {
    const sums = new Map([...this.#peers].map((id) => [id, 0]));
    for (const link of this.#components.values()) {
      for (const [id, count] of link.peerBookings) sums.set(id, (sums.get(id) ?? 0) + count);
    }
    return sums;
  }

  async close(): Promise<void> {
    this.#loads.close();
    this.follow([]);
    await Promise.all(this.#closing);
  }

  #closeUnused(used: ReadonlySet<ComponentLink>): void {
    for (const [name, link] of this.#components) {
      if (used.has(link)) continue;
      this.#components.delete(name);
      const closing = link.close().then(
        () => void this.#closing.delete(closing),
        (thrown: unknown) => this.#deps.logger.for('router').warn('not closed', { name, reason: reasonOf(thrown) }),
      );
      this.#closing.add(closing);
    }
  }

  /**
   * Collects the routers of all components, which may differ: each router that places requests in one of them counts.
   */
  #gatherPeers(): void {
    const peers = new Set([...this.#components.values()].flatMap((link) => [...link.peers]));
    if (peers.size === this.#peers.size && [...peers].every((id) => this.#peers.has(id))) return;
    this.#peers = peers;
    this.#deps.onPeers([...peers].sort());
  }

  #placeOf({ scope }: Worker): ComponentLink {
    const name = scopeName(scope);
    const link =
      this.#components.get(name) ?? new ComponentLink(scope, this.#deps, this.#loads, () => this.#gatherPeers());
    this.#components.set(name, link);
    return link;
  }
}

/** Messages between the routers of one component, or of one endpoint of Dynamo's workers. */
class ComponentLink {
  readonly #scope: FeedScope;
  readonly #deps: ReplicaDeps;
  readonly #loads: PeerLoads;
  readonly #stopping = new AbortController();
  readonly #opened: Promise<void>;
  readonly #onPeers: () => void;
  /**
   * Router behind each publisher of Dynamo, by its last event. Behind brokers, discovery does not say which of them
   * have left. So the router that was silent for longest leaves, and its bookings with it.
   */
  readonly #routerOf = new BoundedMap<string, string>(ROUTERS_MAX, (router) => this.#forget(router));
  /** Ids of the other routers of Stator. */
  peers: ReadonlySet<string> = new Set();
  readonly #lifetime = new Lifetime();
  #publisher: EventPublisher | undefined;
  #sync: ReplicaSync | undefined;
  #follower: TopicFollower | undefined;

  constructor(scope: FeedScope, deps: ReplicaDeps, loads: PeerLoads, onPeers: () => void) {
    this.#scope = scope;
    this.#onPeers = onPeers;
    this.#deps = deps;
    this.#loads = loads;
    this.#opened = this.#open();
  }

  get #name(): string {
    const { namespace, component, endpoint } = this.#scope;
    return [namespace, component, ...(endpoint === undefined ? [] : [endpoint])].join('/');
  }

  get peerBookings(): ReadonlyMap<string, number> {
    return this.#sync?.peerBookings ?? NO_BOOKINGS;
  }

  get lagMs(): number | undefined {
    return this.#sync?.lagMs;
  }

  tell(pool: WorkerPool, { requestId, workerId, dpRank }: ToldRequest, change: ActiveSequenceChange): void {
    // Dynamo's routers know only adapters by a name.
    const loraName = this.isDynamo && pool.base === undefined ? undefined : pool.model;
    this.#sync?.tell({ requestId, workerId, dpRank, loraName, change });
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Error('the component is no longer followed'));
    await this.#opened;
    this.#deps.watch?.forget(this.#name);
    await this.#lifetime.close();
  }

  async #open(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const { clock } = this.#deps;
        await withDeadline({ clock, timeoutMs: OPEN_MS_MAX, signal }, (within) => this.#tryOpen(within));
        return;
      } catch (thrown) {
        if (signal.aborted) return;
        this.#deps.watch?.failed('replicas', reasonOf(thrown), this.#name);
        await this.#deps.clock.sleep(RETRY_MS, signal).catch(() => undefined); // ends early if it is closed
      }
    }
  }

  async #tryOpen(signal: AbortSignal): Promise<void> {
    const { discovery, eventPlane, logger, watch, routerId, routerMetrics, clock } = this.#deps;
    const scope = eventScopeOf(this.#scope);
    this.#publisher ??= await this.#lifetime.use(eventPlane.publisher(scope, ACTIVE_SEQUENCES_TOPIC));
    const { publisherId, transport } = this.#publisher;
    this.#sync ??= this.#lifetime.use(
      new ReplicaSync({
        publisher: this.#publisher,
        routerId,
        ...(this.isDynamo ? { form: 'dynamo' } : {}),
        clock,
        apply: (event: ActiveSequenceEvent): void => this.#apply(event),
        onFull: () => routerMetrics.peerBookingUnremembered(),
      }),
    );
    this.#follower ??= this.#lifetime.use(
      new TopicFollower({
        eventPlane,
        discovery,
        clock,
        logger: logger.for('router'),
        scope,
        topic: ACTIVE_SEQUENCES_TOPIC,
        listener: {
          event: ({ publisherId: by, payload }) =>
            this.#sync?.receive(payload, (router) => this.#routerOf.set(by, router)),
          // The end of a request may be among the lost messages.
          gap: (lossy) => this.#forget(this.#routerBehind(lossy)),
        },
        onPublishers: (routerIds) => this.#setPeers(routerIds),
        onLeft: (left) => this.#left(left),
      }),
    );
    const record: EventChannelRecord = {
      type: 'EventChannel',
      scope,
      topic: ACTIVE_SEQUENCES_TOPIC,
      instance_id: publisherId,
      transport,
      ...(this.isDynamo ? { wire: 'dynamo' } : { worker_id: routerId }),
    };
    await discovery.put(record, signal);
    this.#lifetime.defer(async () => {
      const withdrawn = discovery.remove(record, AbortSignal.timeout(CLOSE_MS_MAX));
      await withdrawn.catch(() => {}); // it ends with the lease of this process
    });
    watch?.succeeded('replicas', this.#name);
  }

  #setPeers(routerIds: ReadonlySet<string>): void {
    const before = this.peers;
    this.peers = new Set([...routerIds].filter((id) => id !== this.#deps.routerId));
    for (const id of before) if (!this.peers.has(id)) this.#forget(id);
    this.#onPeers();
  }

  /** Whether routers of Dynamo read its messages. */
  get isDynamo(): boolean {
    return this.#scope.endpoint !== undefined;
  }

  /** Returns the router that publishes there; undefined if it is not known. */
  #routerBehind(publisherId: string): string | undefined {
    return this.#routerOf.get(publisherId) ?? this.#follower?.workerOf(publisherId);
  }

  /** Frees what a router of Dynamo had booked. Routers of Stator are known by their records. */
  #left(publisherId: string): void {
    if (this.isDynamo) this.#forget(this.#routerOf.get(publisherId));
    this.#routerOf.delete(publisherId);
  }

  #forget(routerId: string | undefined): void {
    if (routerId !== undefined) this.#sync?.forgetPeers(routerId);
  }

  /** Applies an event to the worker set of the same model, or else to any that has the worker. */
  #apply(event: ActiveSequenceEvent): void {
    const has = ({ ranks }: KvPool): boolean => ranks.find(event.workerId, event.dpRank) !== undefined;
    const pools = this.#deps.pools().filter(has);
    const found = pools.find(({ pool }) => pool.model === event.loraName) ?? pools[0];
    if (found === undefined) return;
    replicaBookings(found.scheduler, found.pool.blockSizeTokens)(event);
    found.rearm();
    if (event.change.kind === 'added') this.#loads.booked(found.pool, event.workerId, event.dpRank);
  }
}
