import type { Lifetime } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import { callingPlane, openDiscovery } from '../../fleet/index.ts';
import { bucketsOf, createFrontendMetrics, openTelemetry, type Telemetry } from '../../telemetry/index.ts';
import { ServiceLifecycle } from '../inference/lifecycle.ts';
import type { FrontendDeps, FrontendOptions } from './deps.ts';
import { watchView } from './embedded-metrics.ts';
import { createConsole } from './open-console.ts';

/** The objects that a frontend has before it knows any model. */
export interface Base {
  readonly deps: FrontendDeps;
  readonly telemetry: Telemetry;
  readonly lifecycle: ServiceLifecycle;
  /** Watch on the age of the fleet view that was last read. */
  readonly view: ReturnType<typeof watchView>;
}

/** Opens the objects that every step needs: metrics, telemetry, the request plane and discovery. */
export async function openBase(settings: EdgeSettings, options: FrontendOptions, lifetime: Lifetime): Promise<Base> {
  const { clock, random, logger, discovery: host } = options;
  const metrics = createFrontendMetrics({ clock, prefix: settings.metricsPrefix, buckets: bucketsOf(settings) });
  const { registry } = metrics;
  const telemetry = await lifetime.use(openTelemetry(settings, { clock, random }, logger, registry));
  const plane = await lifetime.use(
    callingPlane(settings, clock, metrics.requestPlane, options.plane, logger.for('requests')),
  );
  const lifecycle = new ServiceLifecycle(clock, metrics.limitReached);
  const view = watchView(clock);
  const hosted = { ...host, clock, random, registry, onView: view.seen };
  const discovery = await lifetime.use(openDiscovery(settings, logger.for('discovery'), hosted));
  const deps: FrontendDeps = {
    lifetime,
    clock,
    random,
    discovery,
    plane,
    metrics,
    logger,
    tracer: telemetry.tracer,
    followsEvents: options.followsEvents ?? true,
    console: await createConsole(settings, clock, metrics),
    planners: options.planners,
    isLasting: host?.isLasting ?? true,
    onHeld: options.onHeld,
    bounds: options.holdBounds,
  };
  return { deps, telemetry, lifecycle, view };
}
