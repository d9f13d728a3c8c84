import { Duration } from 'aws-cdk-lib';
import { MathExpression, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { Rule } from 'aws-cdk-lib/aws-events';
import { Construct } from 'constructs';
import type { Ec2FleetSettings, Settings } from '../../settings/index.ts';
import type { FleetEvents } from '../ec2-fleet/fleet-events.ts';
import { FIVE_MINUTES } from '../metrics.ts';
import { Alarms, type Watch } from './alarms.ts';
import { groupMetric } from './machine-rows.ts';

/** An Auto Scaling group with the id of its option. */
export interface WatchedGroup {
  readonly id: string;
  readonly name: string;
}

interface FleetObservabilityProps {
  /** Name of the fleet in the settings. */
  readonly fleetName: string;
  readonly fleet: Ec2FleetSettings;
  readonly groups: readonly WatchedGroup[];
  readonly events: FleetEvents;
  readonly settings: Settings;
}

/** Time beyond the longest drain for containers to end, and for a dead agent to be noticed. */
const DRAIN_MARGIN_SECS = 600;
const FAILED_STARTS_MAX = 3;
const INTERRUPTIONS_AN_HOUR_MAX = 3;

/** The alarms of a fleet on EC2. Its machines are on the dashboard of the deployment (`machine-rows.ts`). */
export class FleetObservability extends Construct {
  constructor(scope: Construct, id: string, props: FleetObservabilityProps) {
    super(scope, id);
    const alarms = new Alarms(this, props.settings.alarms);
    for (const watch of [...machineWatches(props), ...eventWatches(props)]) alarms.add(watch);
  }
}

/** Returns watches of machines that do not come and of machines that do not go. */
function machineWatches({ fleetName, fleet, groups }: FleetObservabilityProps): readonly Watch[] {
  const missing = groups.map(
    ({ id, name }, at): Watch => ({
      id: `Machines${at}`,
      metric: new MathExpression({
        expression: 'wanted - serving',
        usingMetrics: {
          wanted: groupMetric('GroupDesiredCapacity', name, FIVE_MINUTES),
          serving: groupMetric('GroupInServiceInstances', name, FIVE_MINUTES),
        },
        period: FIVE_MINUTES,
        label: 'Machines that are wanted and do not serve',
      }),
      threshold: 1,
      about: `fleet ${fleetName} lacks machines of option ${id} for twice as long as a start takes`,
      paragraph: 'a-fleet-lacks-machines',
      missing: 'quiet',
      periods: allOf(2 * fleet.startSecs),
    }),
  );
  const names = groups.map((_, at) => `m${at}`);
  const draining: Watch = {
    id: 'Draining',
    metric: new MathExpression({
      expression: names.map((each) => `FILL(${each}, 0)`).join(' + '),
      usingMetrics: Object.fromEntries(
        groups.map(({ name }, at) => [`m${at}`, groupMetric('GroupTerminatingInstances', name, FIVE_MINUTES)]),
      ),
      period: FIVE_MINUTES,
      label: 'Machines that are ending',
    }),
    threshold: 1,
    about: `machines of fleet ${fleetName} do not end, though the longest drain is over`,
    paragraph: 'a-machine-does-not-end',
    missing: 'quiet',
    periods: allOf(fleet.drainSecs + DRAIN_MARGIN_SECS),
  };
  return [...missing, draining];
}

/** Returns watches of what Auto Scaling and EC2 report about machines. */
function eventWatches({ fleetName, events }: FleetObservabilityProps): readonly Watch[] {
  const { interruption } = events;
  const hour = Duration.hours(1);
  const watches: readonly Watch[] = [
    {
      id: 'Shortage',
      metric: ruleMetric(events.shortage, FIVE_MINUTES),
      threshold: 1,
      about: `EC2 has no machines for fleet ${fleetName}, or a quota is reached`,
      paragraph: 'ec2-has-no-machines',
      missing: 'quiet',
      periods: [2, 3],
    },
    {
      id: 'StartFailed',
      metric: ruleMetric(events.startFailed, hour),
      threshold: FAILED_STARTS_MAX,
      about: `machines of fleet ${fleetName} start, and their workers do not`,
      paragraph: 'workers-do-not-start-on-new-machines',
      missing: 'quiet',
      periods: [1, 1],
    },
    {
      id: 'BadGpu',
      metric: ruleMetric(events.badGpu, FIVE_MINUTES),
      threshold: 1,
      about: `a machine of fleet ${fleetName} was replaced because of its GPUs`,
      paragraph: 'a-gpu-is-broken',
      missing: 'quiet',
      periods: [1, 1],
    },
  ];
  if (interruption === undefined) return watches;
  const interruptions: Watch = {
    id: 'Interruptions',
    metric: ruleMetric(interruption, hour),
    threshold: INTERRUPTIONS_AN_HOUR_MAX,
    about: 'EC2 takes several spot machines of the account back within an hour',
    paragraph: 'spot-machines-are-taken-back',
    missing: 'quiet',
    periods: [1, 1],
  };
  return [...watches, interruptions];
}

/** Returns all of the periods of five minutes in a time. */
function allOf(secs: number): readonly [bad: number, of: number] {
  const count = Math.ceil(secs / FIVE_MINUTES.toSeconds());
  return [count, count];
}

/** Returns how often a rule has matched. */
export function ruleMetric(rule: Rule, period: Duration): Metric {
  return new Metric({
    namespace: 'AWS/Events',
    metricName: 'TriggeredRules',
    dimensionsMap: { RuleName: rule.ruleName },
    statistic: 'Sum',
    period,
  });
}
