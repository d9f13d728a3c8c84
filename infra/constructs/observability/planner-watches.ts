import type { MathExpression, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import { groupOf } from '../../../shared/protocol/index.ts';
import type { Settings } from '../../settings/index.ts';
import { MINUTE } from '../metrics.ts';
import type { EventsQueue } from '../planner/events-queue.ts';
import type { PlannedFleet } from '../planner/planned-fleets.ts';
import type { PlannerFunction } from '../planner/planner-function.ts';
import type { PlannerTable } from '../planner/planner-table.ts';
import { Alarms, type Watch } from './alarms.ts';
import { combined, throttleWatch } from './data-watches.ts';

/** Parts of a planner that alarms and the dashboard watch. */
export interface WatchedPlanner {
  readonly queue: EventsQueue;
  readonly function: PlannerFunction;
  readonly table: PlannerTable;
  readonly fleets: readonly PlannedFleet[];
}

interface PlannerObservabilityProps {
  readonly planner: WatchedPlanner;
  readonly settings: Settings;
}

/** A message that waits longer comes after the next tick of its model. */
const AGE_SECS_MAX = 60;
/** The law waits between two decisions. If more come in a minute, it is undoing its own. */
const DECISIONS_MAX = 2;

/** The alarms of the planner. */
export class PlannerObservability extends Construct {
  constructor(scope: Construct, id: string, { planner, settings }: PlannerObservabilityProps) {
    super(scope, id);
    const alarms = new Alarms(this, settings.alarms);
    const hasPods = Object.values(settings.fleets).some(({ kind }) => kind === 'eks');
    const watches = [
      ...queueWatches(planner),
      ...functionWatches(planner),
      ...decisionWatches(planner),
      ...(hasPods ? podWatches(planner) : []),
    ];
    for (const watch of [...watches, throttleWatch([planner.table])]) alarms.add(watch);
  }
}

/** Returns the age of the oldest message of a planner's queue, in seconds. */
export function ageMetric({ queue }: WatchedPlanner): Metric {
  return queue.queue.metricApproximateAgeOfOldestMessage({ period: MINUTE });
}

/** Returns the number of messages that were set aside. */
export function deadMetric({ queue }: WatchedPlanner): MathExpression {
  const waiting = [queue.dead, queue.undelivered].map((each) =>
    each.metricApproximateNumberOfMessagesVisible({ period: MINUTE }),
  );
  return combined(waiting, 'sum', 'Messages that were set aside');
}

function queueWatches(planner: WatchedPlanner): readonly Watch[] {
  return [
    {
      id: 'QueueAge',
      metric: ageMetric(planner),
      threshold: AGE_SECS_MAX,
      about: 'messages to the planner wait for more than a minute',
      paragraph: 'the-planner-falls-behind',
      missing: 'quiet', // an idle queue has no age
    },
    {
      id: 'DeadMessages',
      metric: deadMetric(planner),
      threshold: 1,
      about: 'messages to the planner were set aside',
      paragraph: 'messages-to-the-planner-were-set-aside',
      missing: 'quiet',
      periods: [1, 1],
    },
  ];
}

function functionWatches({ function: planner }: WatchedPlanner): readonly Watch[] {
  return [
    {
      id: 'PlannerErrors',
      metric: planner.metricErrors(),
      threshold: 1,
      about: 'runs of the planner fail, or take too long',
      paragraph: 'the-planner-does-not-run',
      missing: 'quiet',
    },
    {
      id: 'PlannerThrottles',
      metric: planner.metricThrottles(),
      threshold: 1,
      about: 'the account has no concurrency left for the planner',
      paragraph: 'the-planner-does-not-run',
      missing: 'quiet',
    },
    {
      id: 'PlannerSilent',
      metric: planner.metricRuns(),
      threshold: 1,
      isBelow: true,
      about: 'the planner does not run, though ticks should wake it every minute',
      paragraph: 'the-planner-does-not-run',
      missing: 'broken',
      periods: [5, 5],
    },
  ];
}

/**
 * Returns watches of pods that get no node, and of pods that do not start. The planner gives such pods up and tries
 * again later, so a failure shows in one tick only.
 */
function podWatches({ function: planner, fleets }: WatchedPlanner): readonly Watch[] {
  return fleets.flatMap((fleet, at): readonly Watch[] => {
    const group = groupOf(fleet);
    const common = { threshold: 1, missing: 'quiet', periods: [1, 1] } as const;
    return [
      {
        ...common,
        id: `NodesMissing${at}`,
        metric: planner.metricPodFailures('NodesMissing', group),
        about: `pods of ${group} get no node from an option of their fleet, and workers are missing`,
        paragraph: 'pods-get-no-node',
      },
      {
        ...common,
        id: `StartsFailed${at}`,
        metric: planner.metricPodFailures('StartsFailed', group),
        about: `pods of ${group} have a node, and their workers do not start`,
        paragraph: 'workers-do-not-start-in-new-pods',
      },
    ];
  });
}

/** Returns watches of decisions, by what the function itself reports. */
function decisionWatches({ function: planner, fleets }: WatchedPlanner): readonly Watch[] {
  const restless = fleets.map(
    (fleet, at): Watch => ({
      id: `Decisions${at}`,
      metric: planner.metricDecisions(groupOf(fleet)),
      threshold: DECISIONS_MAX + 1,
      about: `the planner decides on ${groupOf(fleet)} more than twice a minute`,
      paragraph: 'the-planner-decides-too-often',
      missing: 'quiet',
    }),
  );
  return [
    {
      id: 'Unapplied',
      metric: planner.metricOfDecisions('UnappliedDecisions'),
      threshold: 1,
      about: 'a decision of the planner is not carried out',
      paragraph: 'a-decision-is-not-carried-out',
      missing: 'quiet',
    },
    {
      id: 'CapacityStalled',
      metric: planner.metricOfDecisions('CapacityStalled'),
      threshold: 1,
      about: 'a model lacks machines, and every option of its fleet has failed',
      paragraph: 'no-option-has-machines',
      missing: 'quiet',
    },
    ...restless,
  ];
}
