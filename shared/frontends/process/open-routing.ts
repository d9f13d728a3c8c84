import type { EdgeSettings } from '../../config/index.ts';
import { type SharedRouterState, servingPlane } from '../../fleet/index.ts';
import { type BusyThresholds, workerSetsOf } from '../../pipeline/index.ts';
import type { EventPlane } from '../../planes/index.ts';
import { openRouterMetrics, openRouting, type Routing } from '../../routing/index.ts';
import type { RouterMetrics } from '../../telemetry/index.ts';
import type { FrontendDeps } from './deps.ts';
import { openHeldReports } from './held-reports.ts';
import { holdsRequests, type OpenHold, openHold } from './hold.ts';
import { type KnownModels, primaryModels } from './open-directory.ts';
import { wantedNamespace } from './planned-models.ts';
import { openPlannerFeed } from './planner-feed.ts';

/** How a frontend chooses workers, and where requests wait for workers. */
export interface FleetRouting {
  readonly routing: Routing;
  readonly routerMetrics: RouterMetrics;
  /** Queue of waiting requests; undefined if the settings ask for no waiting. */
  readonly holding: OpenHold | undefined;
  /** Open event planes, one for each part of the process that follows events. */
  readonly eventPlanes: readonly EventPlane[];
}

/** Opens the routing that the settings name, which then follows the models. */
export async function openFleetRouting(
  settings: EdgeSettings,
  deps: FrontendDeps,
  { directory, inhibition }: KnownModels,
  thresholds: BusyThresholds,
): Promise<FleetRouting> {
  const { clock, metrics, logger, lifetime, console } = deps;
  const { registry } = metrics;
  const eventPlanes: EventPlane[] = [];
  const openEventPlane = deps.followsEvents ? await eventPlaneOpener(settings, deps, eventPlanes) : undefined;
  const feed = await lifetime.use(openPlannerFeed(settings, { ...deps, registry, openEventPlane }));
  const modelsLog = logger.for('models');
  // A lasting process tells planners of them by the event plane, or by the queue.
  const reports =
    holdsRequests(settings) && !deps.isLasting
      ? await lifetime.use(openHeldReports(settings, { ...deps, registry, logger: modelsLog }))
      : undefined;
  const holding = lifetime.use(
    openHold(settings, {
      ...deps,
      registry,
      logger: modelsLog,
      openEventPlane,
      fleetOf: (model) => {
        const known = directory.known(model);
        if (known === undefined) return undefined;
        const ownName = known.card.display_name;
        return { namespace: wantedNamespace(settings, ownName, known.namespace), ownName };
      },
      nameOf: (ownName) => directory.shownNameOf(ownName),
      models: () => directory.listKnown().flatMap(({ name, primaryName }) => (name === primaryName ? [name] : [])),
      outbox: feed?.outbox,
      reports,
      onHolding: (model, count) => {
        console?.coldStarts.holding(model, count, directory.find(model)?.readiness.isReady === true);
      },
    }),
  );
  const shared = await lifetime.use(openSharedState(settings, deps));
  const routerMetrics = openRouterMetrics(settings, deps);
  const routing = await lifetime.use(
    openRouting(settings, {
      ...deps,
      inhibition,
      routerMetrics,
      openServingPlane: () => servingPlane(settings, clock, metrics.requestPlane, logger.for('requests')),
      limitsOf: (model) => thresholds.of(model),
      onAnswering: (isAnswering) => feed?.answering(isAnswering),
      shared,
      openEventPlane,
    }),
  );
  // The feed sends its last events while this process still answers for the fleet: before routing returns its lease.
  lifetime.defer(() => feed?.close());
  directory.follow(() => {
    const workerSets = primaryModels(directory).flatMap(workerSetsOf);
    routing.follow(workerSets);
    feed?.follow(workerSets);
    holding?.hold.look(); // after the routing, which now knows the workers that requests waited for
  });
  return { routing, routerMetrics, holding, eventPlanes };
}

/** Loads the code of event planes. Returns a function that opens one and adds it to `opened`. */
async function eventPlaneOpener(
  settings: EdgeSettings,
  { clock, logger, discovery }: FrontendDeps,
  opened: EventPlane[],
): Promise<() => EventPlane> {
  const { followingEventPlane } = await import('../../fleet/index.ts');
  return () => {
    const plane = followingEventPlane(settings, clock, logger.for('events'), discovery);
    opened.push(plane);
    return plane;
  };
}

/** Opens the state that routers share. Loads its code only if there is a table, or a folder in its place. */
async function openSharedState(
  settings: EdgeSettings,
  { clock, random, logger, metrics, followsEvents }: FrontendDeps,
): Promise<SharedRouterState | undefined> {
  if (settings.routerMode !== 'kv' || !followsEvents) return undefined;
  const isOnFiles = settings.discoveryBackend === 'file' && settings.eventPlane === 'nats';
  if (settings.stateTable === undefined && !isOnFiles) return undefined;
  const { openRouterState } = await import('../../fleet/index.ts');
  return openRouterState(settings, { logger, registry: metrics.registry, clock, random });
}
