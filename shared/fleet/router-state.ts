/** State that the routers of a fleet share: the router-state table, leases, logs of events with their snapshots. */
import { join } from 'node:path';
import type { Clock, Random } from '../clock/index.ts';
import { Lifetime } from '../concurrency/index.ts';
import type { EdgeSettings } from '../config/index.ts';
import { discoveryFolder } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import { type EventPlane, openNats } from '../planes/index.ts';
import {
  ComponentIndex,
  type ComponentPool,
  createNatsSnapshotStore,
  DynamoDbRouterState,
  FileRouterState,
  LeaseHolder,
  type RouterState,
  type SnapshotStore,
  snapshotBucketOf,
} from '../router-state/index.ts';
import {
  createRouterStateMetrics,
  type Logger,
  type MetricRegistry,
  type ProcessLogger,
  type RouterStateMetrics,
  type SharedPart,
} from '../telemetry/index.ts';
import { type ComponentScope, type EventSource, KV_EVENTS_TOPIC } from '../worker-events/index.ts';

/** Longest time to give leases back when the process ends. */
const CLOSE_MS_MAX = 1000;

/**
 * Opens the state that the routers of a fleet share (docs/router-state.md). It lives in the router-state table, or in
 * the folder of `file` discovery if there is a log of events. Returns undefined without either: then one process is
 * alone, or several processes each ask the workers. The table is first touched in the background.
 */
export async function openRouterState(
  settings: EdgeSettings,
  parts: Pick<SharedRouterStateOptions, 'logger' | 'clock' | 'random'> & { readonly registry: MetricRegistry },
): Promise<SharedRouterState | undefined> {
  const { stateTable: tableName, dynamodbEndpoint: endpoint, awsRegion: region } = settings;
  if (tableName === undefined && (settings.discoveryBackend !== 'file' || settings.eventPlane !== 'nats'))
    return undefined;
  const watch = new PartWatch(createRouterStateMetrics(parts.registry), parts.logger.for('router'));
  if (tableName === undefined) {
    const folder = join(await discoveryFolder(settings), 'router-state');
    const state = new FileRouterState({ folder, clock: parts.clock });
    return new SharedRouterState({ ...parts, state: watched(state, watch, 'table'), watch, settings });
  }
  const place = { ...(endpoint === undefined ? {} : { endpoint }), ...(region === undefined ? {} : { region }) };
  const table = await DynamoDbRouterState.open({ tableName, ...place });
  return new SharedRouterState({ ...parts, state: watched(table, watch, 'table'), watch, settings });
}

export interface SharedRouterStateOptions {
  readonly settings: EdgeSettings;
  readonly state: RouterState;
  /** Receives the state's failures. */
  readonly watch: PartWatch;
  /** Opens the snapshots of a component. @default those in NATS */
  readonly openStore?: ((scope: ComponentScope) => SnapshotStore) | undefined;
  readonly logger: ProcessLogger;
  readonly clock: Clock;
  readonly random: Random;
}

/** The shared state of one process: leases, and for each component the event log with its snapshots. */
export class SharedRouterState {
  readonly state: RouterState;
  readonly watch: PartWatch;
  readonly #options: SharedRouterStateOptions;
  readonly #lifetime = new Lifetime();
  readonly #leases = new Map<string, LeaseHolder>(); // by component; bounded by the components of the fleet
  readonly #reset = new Set<string>(); // components; bounded likewise

  constructor(options: SharedRouterStateOptions) {
    this.#options = options;
    this.state = this.#lifetime.use(options.state);
    this.#lifetime.defer(() => this.#returnLeases());
    this.watch = options.watch;
  }

  /**
   * Returns the source of a component's events: its log and its snapshots. Returns undefined if the event plane has no
   * log.
   * @param pools worker sets with workers of the component
   */
  sourceOf(
    plane: EventPlane,
    { namespace, component }: ComponentScope,
    pools: () => readonly ComponentPool[],
  ): EventSource | undefined {
    const { log } = plane;
    if (log === undefined) return undefined;
    const scope = { kind: 'component', namespace, component } as const;
    const { settings, state, watch, logger, clock, random } = this.#options;
    const { openStore = (named) => this.#openStore(named) } = this.#options;
    const { snapshotIntervalSecs, routerSnapshotThreshold: threshold } = settings;
    const name = `${namespace}/${component}`;
    const routerLog = logger.for('router').with({ namespace, component });
    let hasWritten = false;
    return new ComponentIndex({
      state,
      pointer: { namespace, name: component },
      openLog: (signal) => log(scope, KV_EVENTS_TOPIC, signal),
      store: watched(openStore({ namespace, component }), watch, 'snapshots', name),
      lease: this.#leaseOf({ namespace, component }),
      pools,
      dropsPointer: this.#resetsNow({ namespace, component }),
      clock,
      random,
      intervalMs: snapshotIntervalSecs && snapshotIntervalSecs * 1000,
      messagesMax: threshold === null ? Number.POSITIVE_INFINITY : threshold, // null: only the interval decides
      onHydrated: (from) => {
        watch.metrics.hydrated(from);
        routerLog.info('the block index was rebuilt', { from });
      },
      onFollowing: () => watch.succeeded('log', name),
      onUnusable: (problem) =>
        routerLog.warn('a snapshot of the block index cannot be used', { reason: reasonOf(problem) }),
      isStoreAway: () => watch.isAway('snapshots', name),
      onSnapshot: ({ sequence, object }) => {
        watch.metrics.snapshotWritten();
        const level = hasWritten ? 'debug' : 'info'; // the first shows that it works; afterwards there is one a minute
        hasWritten = true;
        routerLog[level]('a snapshot of the block index was written', { sequence, object });
      },
      onWithoutLog: () => watch.failed('log', 'the event log cannot be read; asking the workers', name),
      onProblem(part, problem) {
        const reason = reasonOf(problem);
        if (part === 'log') watch.failed(part, reason, name);
        // Table and store report their own failures.
        else routerLog.warn('a snapshot of the block index was not finished', { reason });
      },
      onStop: () => watch.forget(name),
    });
  }

  /**
   * Returns whether to drop a component's stored snapshot. `--router-reset-states` applies at the start: a component
   * that comes back is not reset again.
   */
  #resetsNow({ namespace, component }: ComponentScope): boolean {
    const name = `${namespace}/${component}`;
    if (this.#options.settings.routerResetStates !== true || this.#reset.has(name)) return false;
    this.#reset.add(name);
    this.#options.logger
      .for('router')
      .warn('the stored snapshot of the block index is dropped', { namespace, component });
    return true;
  }

  /** Returns the lease that allows one router of the fleet to write a component's state for the others. */
  #leaseOf({ namespace, component }: ComponentScope): LeaseHolder {
    const name = `index/${component}`;
    const known = this.#leases.get(`${namespace}/${name}`);
    if (known !== undefined) return known;
    const { settings, state, clock, random } = this.#options;
    const { metrics } = this.watch;
    const lease = new LeaseHolder({
      state,
      lease: { namespace, name },
      clock,
      random,
      ttlMs: settings.leaseTtlSecs * 1000,
      onAcquired: () => metrics.leaseHeld(component, true),
      onLost: () => metrics.leaseHeld(component, false),
      onProblem: () => {}, // the state itself reports every failure of the table
    });
    this.#leases.set(`${namespace}/${name}`, lease);
    metrics.leaseHeld(component, false);
    lease.start();
    return lease;
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }

  /** Gives leases back, so that another router takes them at once. */
  async #returnLeases(): Promise<void> {
    const deadline = AbortSignal.timeout(CLOSE_MS_MAX);
    await Promise.allSettled([...this.#leases.values()].map((lease) => lease.stop(deadline))); // otherwise they expire
  }

  #openStore({ namespace, component }: ComponentScope): SnapshotStore {
    const { settings, clock, logger } = this.#options;
    const { natsStreamReplicas: replicas } = settings;
    return createNatsSnapshotStore({
      client: openNats(settings, clock, 'snapshots', logger.for('events')),
      bucket: snapshotBucketOf(namespace, component),
      ...(replicas === undefined ? {} : { replicas }),
    });
  }
}

/** Counts failures, and logs once when a part becomes unavailable and once when it is back. */
export class PartWatch {
  readonly metrics: RouterStateMetrics;
  readonly #logger: Logger;
  /**
   * Number of failures since each part became unavailable, by part and component; bounded by the components of the
   * fleet.
   */
  readonly #away = new Map<SharedPart, Map<string, number>>();

  constructor(metrics: RouterStateMetrics, logger: Logger) {
    this.metrics = metrics;
    this.#logger = logger;
  }

  /** Returns whether the part is unavailable. @param component the component, if each has a part of its own */
  isAway(part: SharedPart, component = ''): boolean {
    return this.#away.get(part)?.has(component) === true;
  }

  failed(part: SharedPart, reason: string, component = ''): void {
    this.metrics.problem(part);
    const away = this.#away.get(part) ?? new Map<string, number>();
    this.#away.set(part, away);
    const failures = away.get(component) ?? 0;
    away.set(component, failures + 1);
    if (failures > 0) return;
    this.metrics.away(part, true);
    this.#logger.warn('routing on what was last known', { part, ...componentField(component), reason });
  }

  succeeded(part: SharedPart, component = ''): void {
    const failures = this.#end(part, component);
    if (failures === undefined) return;
    this.#logger.info('what routers share is there again', { part, ...componentField(component), failures });
  }

  /** Drops the failures of a component that this process no longer uses. */
  forget(component: string): void {
    for (const part of this.#away.keys()) this.#end(part, component);
  }

  #end(part: SharedPart, component: string): number | undefined {
    const away = this.#away.get(part);
    const failures = away?.get(component);
    if (away?.delete(component) === true && away.size === 0) this.metrics.away(part, false);
    return failures;
  }
}

function componentField(component: string): { readonly component?: string } {
  return component === '' ? {} : { component };
}

/**
 * Returns `part` wrapped so that `watch` learns of each of its answers and failures; its callers need not report them.
 */
export function watched<T extends object>(part: T, watch: PartWatch, name: SharedPart, component = ''): T {
  return new Proxy(part, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property, target);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(member, target, given);
        if (property === 'close' || !(answer instanceof Promise)) return answer;
        answer.then(
          () => watch.succeeded(name, component),
          (problem: unknown) => {
            const isGivenUp = given.some((value) => value instanceof AbortSignal && value.aborted);
            if (!isGivenUp) watch.failed(name, reasonOf(problem), component);
          },
        );
        return answer;
      };
    },
  });
}
