import type { EdgeSettings } from '../../config/index.ts';
import { ColdStartQueue } from '../../pipeline/index.ts';
import type { PlannerOutbox } from '../../planes/index.ts';
import type { HeldReporter } from '../../planner/index.ts';
import type { PlannerEventOf } from '../../protocol/index.ts';
import { createDemandMetrics, createHoldMetrics, type MetricRegistry } from '../../telemetry/index.ts';
import { HeldEvents, type HeldEventsDeps } from './held-events.ts';
import { QueuedRequests } from './queued-requests.ts';
import { WaitingRefresh } from './waiting-refresh.ts';

/** Longest waits for a worker that a host can keep, whatever the settings say. */
export interface HoldBounds {
  readonly streamMsMax: number;
  /** Longest wait of an answer that is not streamed, in milliseconds. */
  readonly unaryMsMax: number;
}

interface HoldDeps extends HeldEventsDeps {
  readonly registry: MetricRegistry;
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
