import type { Clock, Random } from '../../clock/index.ts';
import type { Lifetime } from '../../concurrency/index.ts';
import { type Environment, isOfOneProcess, type Settings } from '../../config/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { eventPlane, openDiscovery } from '../../fleet/index.ts';
import { type Connector, FleetPlanner, type FleetPlannerOptions, type Pool } from '../../planner/index.ts';
import type { MetricRegistry, ProcessLogger } from '../../telemetry/index.ts';
import { PlannerPages } from './pages.ts';

/** Dependencies that a process passes to its planner. */
export interface FleetDeps {
  readonly settings: Settings<'planner' | 'local'>;
  readonly env: Environment;
  readonly logger: ProcessLogger;
  readonly clock: Clock;
  readonly random: Random;
  /** Shows one line to people. */
  tell(line: string): void;
}

type OpenedHere =
  | 'connector'
  | 'discovery'
  | 'eventPlane'
  | 'clock'
  | 'random'
  | 'logger'
  | 'tell'
  | 'isAlone'
  | 'where';

interface FleetOptions extends Omit<FleetPlannerOptions, OpenedHere> {
  /** Registry of discovery's metrics. @default none */
  readonly registry?: MetricRegistry;
  gpusOf(pool: Pool): number;
  /** Opens what carries decisions out. It may read the planner's discovery. */
  connector(discovery: Discovery): Connector | Promise<Connector>;
}

/** A planner that hears its fleet, and the addresses of its pages by name. */
interface PlannedFleet {
  readonly fleet: FleetPlanner;
  readonly shown: Readonly<Record<string, string>>;
}

/**
 * Opens a planner, the discovery and event plane by which it hears its fleet, and its pages. `lifetime` closes them.
 */
export async function openFleet(
  lifetime: Lifetime,
  { settings, logger, clock, random, tell }: FleetDeps,
  { registry, gpusOf, connector: openConnector, ...options }: FleetOptions,
): Promise<PlannedFleet> {
  const common = { clock, logger: logger.for('planner') };
  const seen = registry === undefined ? {} : { registry };
  const discovery = await lifetime.use(openDiscovery(settings, logger.for('discovery'), { clock, random, ...seen }));
  const plane = lifetime.use(eventPlane(settings, clock, logger.for('events'), discovery));
  const connector = await lifetime.use(openConnector(discovery));
  const fleet = new FleetPlanner({
    ...options,
    ...common,
    connector,
    discovery,
    eventPlane: plane,
    isAlone: isOfOneProcess(settings.discoveryBackend),
    where: { discovery: settings.discoveryBackend, event_plane: settings.eventPlane },
    random,
    tell,
  });
  const pages = lifetime.use(new PlannerPages({ ...common, fleet, store: options.store, gpusOf }));
  lifetime.use(fleet); // closes first, so that no tick writes a report while the pages close
  fleet.onTick((tick) => pages.ticked(tick));
  return { fleet, shown: await pages.serve() };
}
