import type { Clock, Random } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import { openDiscovery } from '../../fleet/index.ts';
import {
  AutoScalingCalls,
  drainOrders,
  type PlannedBatch,
  type PlannedModel,
  QueuePlanner,
} from '../../planner/index.ts';
import { groupOf } from '../../protocol/index.ts';
import type { ProcessLogger } from '../../telemetry/index.ts';
import { ec2Connectors, isOfPods, podConnectors } from './connector.ts';
import { openPlannerStore } from './planner-store.ts';
import { fleetPlanning } from './planning.ts';
import { scaledFleets } from './scaled-fleet.ts';

interface QueuePlannerDeps {
  readonly settings: Settings<'planner'>;
  readonly logger: ProcessLogger;
  readonly clock: Clock;
  readonly random: Random;
  /** Counts messages that say nothing to a planner. */
  onUnknown(count: number): void;
  /** Hears what each batch has come to for each of its models. */
  onPlanned(batch: PlannedBatch): void;
}

/** Largest age of what workers reported at the beginning of a batch, in milliseconds. */
const DISCOVERY_AGE_MS_MAX = 1000;

/**
 * Opens the planner of a function for all fleets of `STATOR_PLANNER_FLEETS`. It stays open as long as the environment
 * of the function. @throws ConfigError for settings that cannot be used
 */
export function openQueuePlanner({ settings, logger, clock, random, ...hears }: QueuePlannerDeps) {
  return Lifetime.compose(async (lifetime) => {
    if (settings.plannerTable === undefined) {
      throw new ConfigError(['STATOR_PLANNER_TABLE is missing: it names the table of the decisions']);
    }
    const specs = await scaledFleets(settings);
    if (specs === undefined) {
      const { plannerConnector: connector } = settings;
      throw new ConfigError([`STATOR_PLANNER_CONNECTOR ${connector}: a function scales with ec2, kubernetes or eks`]);
    }
    const { fleets, gpusMax } = specs;
    const store = await lifetime.use(openPlannerStore(settings, {}));
    const host = { clock, random, isLasting: false };
    const discovery = await lifetime.use(openDiscovery(settings, logger.for('discovery'), host));
    const isEc2 = fleets.some((fleet) => !isOfPods(fleet));
    const calls = isEc2 ? await lifetime.use(AutoScalingCalls.open(clock)) : undefined;
    const ofPods = podConnectors({ discovery, clock, env: process.env });
    const ofGroups = calls === undefined ? undefined : ec2Connectors({ discovery, calls, clock });
    const models: PlannedModel[] = [];
    for (const fleet of fleets) {
      const planner = await fleetPlanning(settings, fleet);
      const connector = isOfPods(fleet) ? await ofPods(fleet) : await ofGroups?.(fleet);
      if (connector !== undefined) models.push({ group: groupOf(fleet), fleet, planner, connector });
    }
    return new QueuePlanner({
      ...{ models, store, clock, gpusMax },
      onUnknown: hears.onUnknown,
      onPlanned: hears.onPlanned,
      logger: logger.for('planner'),
      holder: random.instanceId(),
      orderDrain: drainOrders(discovery),
      // Events about machines say nothing about pods: a pod that is lost is missing at the next look.
      groupsOf: async (instanceIds, signal) => (await calls?.groupsOf(instanceIds, signal)) ?? new Map(),
      refresh: (signal) => discovery.refresh(DISCOVERY_AGE_MS_MAX, signal),
    });
  });
}
