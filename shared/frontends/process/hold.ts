import type { Clock, TimeAndChance, Timer } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { ColdStartQueue } from '../../pipeline/index.ts';
import type { EventPlane, EventPublisher, EventScope, PlannerOutbox } from '../../planes/index.ts';
import type { HeldReporter } from '../../planner/index.ts';
import { HELD_TOPIC, PLANNER_EVENT_VERSION, type PlannerEventOf } from '../../protocol/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { type RoutableWorker, type Router, withChoose } from '../../router/index.ts';
import { createDemandMetrics, createHoldMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

/** Longest waits for a worker that a host can keep, whatever the settings say. */
export interface HoldBounds {
  readonly streamMsMax: number;
  /** Longest wait of an answer that is not streamed, in milliseconds. */
  readonly unaryMsMax: number;
}

interface HoldDeps extends TimeAndChance {
  readonly registry: MetricRegistry;
  readonly logger: Logger;
  readonly discovery: Discovery;
  /** Opens the event plane; undefined on hosts that publish nothing. */
  readonly openEventPlane: (() => EventPlane) | undefined;
  /** Called when the first request of a model waits for a worker, and every 5 s while any waits. */
  readonly onHeld?: ((event: PlannerEventOf<'request.held'>) => void) | undefined;
  /** Outbox of the planner's queue. @default there is no queue */
  readonly outbox?: Pick<PlannerOutbox, 'put'> | undefined;
  /** Notes what is held in the table of the planner. @default there is no table */
  readonly reports?: Pick<HeldReporter, 'holds' | 'ends' | 'settled'> | undefined;
  /** Whether discovery follows the fleet itself. Otherwise the hold refreshes it while requests wait. */
  readonly isLasting: boolean;
  /** Longest waits that the host can keep, in milliseconds. @default none */
  readonly bounds?: HoldBounds | undefined;
  /** Called when the number of waiting requests of a model changes. @default nothing is called */
  readonly onHolding?: ((model: string, count: number) => void) | undefined;
  /**
   * Returns the namespace in which the workers of the model are, or last were, and the name that they use; undefined =
   * unknown.
   */
  fleetOf(model: string): { readonly namespace: string; readonly ownName: string } | undefined;
  /** Returns the name that clients use for a model, from the name that its workers use. @default the same name */
  readonly nameOf?: (ownName: string) => string;
  /** Returns the models that clients may ask for, by their names for clients. @default those with waiting requests */
  readonly models?: () => readonly string[];
}

/** The queue in which requests wait for workers, and the events that ask planners for some. */
export interface OpenHold {
  readonly hold: ColdStartQueue;
  /** Requests that wait in the router's queue; they also ask for workers. */
  readonly queued: QueuedRequests;
  /** Resolves once no note about held requests is being written, in bounded time. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** Returns whether requests wait while their model has no worker. */
export function holdsRequests({ holdTimeoutSecs = 0 }: EdgeSettings): boolean {
  return holdTimeoutSecs > 0;
}

/** Opens the queue for requests without a worker; returns undefined if the settings ask for no waiting. */
export function openHold(settings: EdgeSettings, deps: HoldDeps): OpenHold | undefined {
  const { holdTimeoutSecs = 0, holdMax, namespace = 'dynamo' } = settings;
  if (!holdsRequests(settings)) return undefined;
  const { clock, logger, registry } = deps;
  const fleetOf = (model: string) => deps.fleetOf(model) ?? { namespace, ownName: model };
  const countOf = (model: string): number => hold.countOf(model) + queued.count(model);
  const events = new HeldEvents(deps);
  const metrics = createHoldMetrics(registry);
  const refresh = deps.isLasting
    ? undefined
    : new WaitingRefresh(deps, () => hold.models.map((model) => deps.fleetOf(model)?.ownName ?? model));
  const want = (model: string, oldestAtMs: number): void => {
    const count = countOf(model);
    const { namespace: ofWorkers, ownName } = fleetOf(model);
    // Planners know the model only by its own name.
    const event = events.publish(ofWorkers, ownName, count, oldestAtMs);
    deps.outbox?.put(event);
    deps.reports?.holds(model, { namespace: ofWorkers, model: ownName, count, oldestAtMs });
    deps.onHeld?.(event);
  };
  const left = (model: string): void => {
    if (countOf(model) === 0) deps.reports?.ends(model);
  };
  const queued = new QueuedRequests({ clock, nameOf: deps.nameOf, onWaiting: want, onEmpty: left });
  const hold: ColdStartQueue = new ColdStartQueue({
    clock,
    timeoutMs: Math.min(holdTimeoutSecs * 1000, deps.bounds?.streamMsMax ?? Number.POSITIVE_INFINITY),
    ...(deps.bounds === undefined ? {} : { unaryTimeoutMs: deps.bounds.unaryMsMax }),
    requestsMax: holdMax,
    observer: {
      ...metrics,
      holding: (model, count) => {
        metrics.holding(model, count);
        deps.onHolding?.(model, count);
        if (count === 0) left(model);
        refresh?.waiting(hold.count);
      },
      wanted: (model, count, oldestAtMs) => {
        logger.info('requests wait for a worker', { model, requests: count });
        want(model, oldestAtMs);
      },
    },
  });
  createDemandMetrics(registry).readDemandFrom(() => {
    const models = new Set([...(deps.models?.() ?? []), ...hold.models, ...queued.models]);
    return [...models].map((model) => ({ ...fleetOf(model), count: countOf(model) }));
  });
  return {
    hold,
    queued,
    settled: async () => deps.reports?.settled(),
    close: () => events.close(),
  };
}

/**
 * Reads the fleet each second while requests wait for workers, for a process whose discovery does not follow the fleet.
 * It asks again for the models that wait: one that no worker has served yet is in no view that could show it. No timer
 * outlives the wait: a frozen process would meet it in another request.
 */
class WaitingRefresh {
  readonly #deps: Pick<HoldDeps, 'clock' | 'discovery' | 'logger'>;
  readonly #models: () => readonly string[];
  #waiting: AbortController | undefined;

  /** @param models returns the own names of the models with waiting requests */
  constructor(deps: Pick<HoldDeps, 'clock' | 'discovery' | 'logger'>, models: () => readonly string[]) {
    this.#deps = deps;
    this.#models = models;
  }

  /** Takes the number of requests that wait. */
  waiting(count: number): void {
    if (count === 0) {
      this.#waiting?.abort();
      this.#waiting = undefined;
    } else if (this.#waiting === undefined) {
      this.#waiting = new AbortController();
      void this.#refresh(this.#waiting.signal); // never rejects
    }
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps;
    while (!signal.aborted) {
      await clock.sleep(REFRESH_MS, signal).catch(() => undefined); // no request waits any more
      if (signal.aborted) return;
      await this.#read(signal).catch((thrown: unknown) =>
        logger.debug('the fleet was not read', { reason: reasonOf(thrown) }),
      );
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { discovery } = this.#deps;
    await discovery.refresh(REFRESH_MS);
    for (const model of this.#models()) await discovery.shownModels?.show(model, signal);
  }
}

const REFRESH_MS = 1000;

/**
 * Bound of open publishers, which belong to the namespaces that asked last. A fleet may have new namespaces with every
 * roll-out.
 */
const PUBLISHERS_MAX = 16;

interface OpenPublisher {
  readonly publisher: EventPublisher;
  close(): Promise<void>;
}

/** Publishes `request.held`. The first event opens the plane, because most frontends never publish any. */
class HeldEvents {
  readonly #deps: HoldDeps;
  readonly #source: string;
  readonly #epoch: string;
  readonly #publishers: BoundedMap<string, Promise<OpenPublisher>>; // by namespace, the latest one last
  readonly #lifetime = new Lifetime();
  #sequence = 0;
  #plane: EventPlane | undefined;

  constructor(deps: HoldDeps) {
    this.#deps = deps;
    this.#publishers = new BoundedMap(PUBLISHERS_MAX, (opening, namespace) => this.#closeDropped(opening, namespace));
    this.#source = deps.random.instanceId();
    this.#epoch = deps.random.instanceId();
  }

  publish(namespace: string, model: string, count: number, oldestAtMs: number): PlannerEventOf<'request.held'> {
    const { clock, openEventPlane, logger } = this.#deps;
    const event: PlannerEventOf<'request.held'> = {
      type: 'request.held',
      v: PLANNER_EVENT_VERSION,
      namespace,
      model,
      source: this.#source,
      held_count: count,
      oldest_at: oldestAtMs,
      epoch: this.#epoch,
      seq: this.#sequence++,
    };
    if (openEventPlane === undefined) return event;
    const known = this.#publishers.get(namespace);
    const opening = known ?? this.#open(namespace, openEventPlane);
    this.#publishers.set(namespace, opening);
    opening
      .then(async ({ publisher }) => {
        publisher.publish(event);
        if (known !== undefined) return;
        await clock.sleep(HEARD_MS); // no subscriber knew the publisher yet; a repeated event counts once
        publisher.publish(event);
      })
      .catch((thrown: unknown) => {
        // The next event, in 5 s, tries again.
        if (this.#publishers.get(namespace) === opening) this.#publishers.delete(namespace);
        logger.warn('cannot ask for a worker', { model, namespace, reason: reasonOf(thrown) });
      });
    return event;
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }

  async #closePublishers(): Promise<void> {
    const opened = await Promise.allSettled(this.#publishers.values()); // a failure was logged when it happened
    await Promise.all(opened.map((one) => one.status === 'fulfilled' && one.value.publisher.close()));
  }

  #openPlane(openEventPlane: () => EventPlane): EventPlane {
    const plane = this.#lifetime.use(openEventPlane());
    this.#lifetime.defer(() => this.#closePublishers()); // they close before their plane
    return plane;
  }

  #closeDropped(opening: Promise<OpenPublisher>, namespace: string): void {
    opening
      .then((open) => open.close())
      .catch((thrown: unknown) =>
        this.#deps.logger.debug('a publisher was not closed', { namespace, reason: reasonOf(thrown) }),
      );
  }

  async #open(namespace: string, openEventPlane: () => EventPlane): Promise<OpenPublisher> {
    const { discovery } = this.#deps;
    const scope: EventScope = { kind: 'namespace', namespace };
    this.#plane ??= this.#openPlane(openEventPlane);
    const publisher = await this.#plane.publisher(scope, HELD_TOPIC);
    const { publisherId: instance_id, transport } = publisher;
    const record = { type: 'EventChannel', scope, topic: HELD_TOPIC, instance_id, transport } as const;
    try {
      await discovery.put(record, AbortSignal.timeout(PUT_MS_MAX));
    } catch (thrown) {
      await publisher.close();
      throw thrown;
    }
    return {
      publisher,
      close: async () => {
        await publisher.close();
        await discovery.remove(record, AbortSignal.timeout(PUT_MS_MAX));
      },
    };
  }
}

const PUT_MS_MAX = 5000;
/** Time after which subscribers have found a new publisher, in milliseconds. */
const HEARD_MS = 1000;

interface QueuedRequestsOptions {
  readonly clock: Clock;
  /** Returns the name that clients use for a model, from the name that its workers use. @default the same name */
  readonly nameOf?: ((ownName: string) => string) | undefined;
  /** Called every 5 s while requests of a model wait, with the time at which the oldest came, as Unix ms. */
  onWaiting(model: string, oldestAtMs: number): void;
  /** Called when no request of a model waits any more. @default nothing is called */
  onEmpty?(model: string): void;
}

/**
 * Interval between two reports of waiting requests, in milliseconds: as often as the request for a first worker is
 * repeated.
 */
const TOLD_EVERY_MS = 5000;

interface ModelQueue {
  /** Times at which the requests came, in that order. */
  readonly waiting: Set<{ readonly atMs: number }>;
  readonly timer: Timer;
}

/**
 * Requests that wait in the queues of this process's router, and that new workers could take. Planners learn nothing of
 * a wait that is over within 5 s.
 */
export class QueuedRequests {
  readonly #options: QueuedRequestsOptions;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request

  constructor(options: QueuedRequestsOptions) {
    this.#options = options;
  }

  /** Models with waiting requests. */
  get models(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /** Returns how many requests of the model wait. */
  count(model: string): number {
    return this.#queues.get(model)?.waiting.size ?? 0;
  }

  /** Returns `router`, wrapped so that requests that wait in its queue are counted. */
  watch<Worker extends RoutableWorker>(router: Router<Worker>): Router<Worker> {
    return withChoose(router, (request, signal) => {
      let leave = (): void => {};
      const { pool, onQueued } = request;
      const name = pool.model ?? pool.key;
      const watched = {
        ...request,
        onQueued: (position: number) => {
          leave = this.#enter(this.#options.nameOf?.(name) ?? name);
          return onQueued?.(position);
        },
      };
      return router.choose(watched, signal).finally(() => leave());
    });
  }

  #enter(model: string): () => void {
    const queue = this.#queues.get(model) ?? this.#open(model);
    const request = { atMs: this.#options.clock.wallMs() };
    queue.waiting.add(request);
    return () => {
      queue.waiting.delete(request);
      if (queue.waiting.size > 0) return;
      queue.timer.cancel();
      if (this.#queues.get(model) === queue) this.#queues.delete(model);
      this.#options.onEmpty?.(model);
    };
  }

  #open(model: string): ModelQueue {
    const { clock, onWaiting } = this.#options;
    const waiting: ModelQueue['waiting'] = new Set();
    const timer = clock.every(TOLD_EVERY_MS, () => {
      for (const { atMs } of waiting) {
        onWaiting(model, atMs);
        return;
      }
    });
    const queue = { waiting, timer };
    this.#queues.set(model, queue);
    return queue;
  }
}
