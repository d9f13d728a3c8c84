import { Lifetime } from '../../concurrency/index.ts';
import type { Settings } from '../../config/index.ts';
import { listenAddress } from '../../planes/index.ts';
import { createPlannerMetrics, type Pool } from '../../planner/index.ts';
import { MetricRegistry } from '../../telemetry/index.ts';
import { type ConnectorDeps, openConnector } from './connector.ts';
import { type FleetDeps, openFleet } from './open-fleet.ts';
import { openPlannerStore } from './planner-store.ts';
import { fleetPlanning } from './planning.ts';
import { prometheusTraffic } from './prometheus.ts';
import { scaledFleet } from './scaled-fleet.ts';
import { serveMetrics } from './serve-metrics.ts';

interface PlannerDeps extends FleetDeps, ConnectorDeps {
  readonly settings: Settings<'planner'>;
}

interface RunningPlanner {
  /** Facts that the log states at the start. */
  readonly facts: Readonly<Record<string, string>>;
  /** Runs until `close`. Rejects if the law cannot work with what is heard. */
  run(): Promise<void>;
  close(): Promise<void>;
}

/** Opens everything that `stator planner` needs. @throws ConfigError for settings that cannot be used */
export function openPlanner(deps: PlannerDeps): Promise<RunningPlanner> {
  const { settings, env, logger, clock } = deps;
  return Lifetime.compose(async (lifetime) => {
    const scaled = await scaledFleet(settings);
    const planner = await fleetPlanning(settings, scaled?.fleet);
    const { config } = planner;
    const { namespace = scaled?.fleet.namespace ?? config.namespace } = settings;
    const registry = new MetricRegistry();
    const gpusOf = (pool: Pool): number => config[`${pool}EngineNumGpu`] ?? 1;
    const metrics = createPlannerMetrics(registry, config, gpusOf, namespace);
    const { plannerMetricsHost, plannerMetricsPort: port } = settings;
    const host = listenAddress(plannerMetricsHost).bind;
    const page = await lifetime.use(serveMetrics(registry, { host, port }, clock));
    const store = await lifetime.use(openPlannerStore(settings, env));
    const log = logger.for('planner');
    const { fleet, shown } = await openFleet(lifetime, deps, {
      registry,
      gpusOf,
      planner,
      store,
      connector: (discovery) => openConnector(deps, { namespace, config, fleet: scaled?.fleet }, discovery),
      namespace,
      model: scaled?.fleet.model ?? settings.plannerModel ?? config.modelName ?? undefined,
      gpusMax: scaled?.gpusMax,
      metrics,
      readTraffic: prometheusTraffic(settings, namespace, clock, (problem) => log.warn(problem)),
    });
    const facts = {
      law: config.law,
      namespace,
      connector: settings.plannerConnector,
      ...(page === undefined ? {} : { metrics: page.url }),
      ...shown,
    };
    return { facts, run: () => fleet.run(), close: () => lifetime.close() };
  });
}
