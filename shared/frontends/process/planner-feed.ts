import type { TimeAndChance } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import type { RoutableModel } from '../../pipeline/index.ts';
import type { EventPlane, PlannerOutbox } from '../../planes/index.ts';
import type { MetricRegistry, ProcessLogger } from '../../telemetry/index.ts';

interface FeedDeps extends TimeAndChance {
  readonly registry: MetricRegistry;
  readonly logger: ProcessLogger;
  readonly discovery: Discovery;
  /** Opens the event plane; undefined on hosts that cannot follow events. */
  readonly openEventPlane: (() => EventPlane) | undefined;
}

/** Sends events about the fleet to the queue of planners. */
export interface PlannerFeed {
  readonly outbox: PlannerOutbox;
  /**
   * Takes note that this process begins, or ends, to answer for the fleet. Only one process tells planners of the
   * workers.
   */
  answering(isAnswering: boolean): void;
  /** Takes the current models. */
  follow(models: readonly RoutableModel[]): void;
  /**
   * Sends the events that it holds, in bounded time. Call it while this process still answers for the fleet. Later
   * calls return the same promise.
   */
  close(): Promise<void>;
}

/** Longest time that the end of a process waits for the queue, in milliseconds. */
const CLOSE_MS_MAX = 3000;

/** Opens the feed if the settings name a queue, and loads its code only then. */
export async function openPlannerFeed(settings: EdgeSettings, deps: FeedDeps): Promise<PlannerFeed | undefined> {
  if (settings.plannerQueueUrl === undefined) return undefined;
  return Lifetime.compose((lifetime) => openFeed(settings, deps, lifetime));
}

async function openFeed(
  settings: EdgeSettings,
  { openEventPlane, discovery, registry, clock, random, logger: loggers }: FeedDeps,
  lifetime: Lifetime,
): Promise<PlannerFeed | undefined> {
  const { openPlannerOutbox } = await import('../../fleet/index.ts');
  const logger = loggers.for('planner');
  const outbox = await openPlannerOutbox(settings, { clock, logger, registry });
  if (outbox === undefined) return undefined;
  lifetime.defer(() => outbox.close(CLOSE_MS_MAX)); // after the roll-ups, whose last events it sends
  const canLead = settings.routerRole === 'resident' && openEventPlane !== undefined;
  const eventPlane = lifetime.use(canLead ? openEventPlane() : undefined);
  const { FleetRollups } = await import('../../planner/index.ts');
  const rollups = lifetime.use(
    eventPlane && new FleetRollups({ discovery, eventPlane, clock, random, logger, outbox }),
  );
  rollups?.follow([settings.namespace ?? 'dynamo']);
  return {
    outbox,
    answering: (isAnswering) => (isAnswering ? rollups?.lead() : rollups?.standBy()),
    follow: (models) =>
      rollups?.follow(models.flatMap(({ workers }) => workers.map(({ scope: { namespace } }) => namespace))),
    close: () => lifetime.close(),
  };
}
