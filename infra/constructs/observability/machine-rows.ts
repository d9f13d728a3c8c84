import { GraphWidget, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { EMBEDDED_NAMESPACE } from '../../../shared/telemetry/index.ts';
import type { Settings } from '../../settings/index.ts';
import { groupNamesOf, plannerFleetsOf } from '../ec2-fleet/planner-fleets.ts';
import { MINUTE } from '../metrics.ts';

/**
 * Returns rows of the dashboard about the machines of all fleets on EC2; none without such fleets. One dashboard shows
 * them all, because CloudWatch asks 3 US$ a month for each. Groups have names that are known before their stacks exist.
 */
export function machineRows(settings: Settings): GraphWidget[][] {
  const groups = groupNamesOf(plannerFleetsOf(settings).fleets);
  if (groups.length === 0) return [];
  const graph = (title: string, left: Metric[]) => new GraphWidget({ title, left, width: 12 });
  const ofAll = (metricName: string) => groups.map((name) => groupMetric(metricName, name));
  const gpus = (metricName: string) => groups.map((name) => gpuMetric(metricName, name));
  return [
    [
      graph('Machines that serve', ofAll('GroupInServiceInstances')),
      graph('Machines wanted', ofAll('GroupDesiredCapacity')),
    ],
    [
      graph('Machines that start', ofAll('GroupPendingInstances')),
      graph('Machines that end', ofAll('GroupTerminatingInstances')),
    ],
    [
      graph('Machines that wait in warm pools', ofAll('WarmPoolWarmedCapacity')),
      graph('Use of GPUs, %', gpus('GpuUse')),
    ],
    [graph('Memory of GPUs in use, %', gpus('GpuMemoryUse'))],
  ];
}

/** Returns a metric of a group, which Auto Scaling reports each minute. The least of a period: it lasts. */
export function groupMetric(metricName: string, name: string, period = MINUTE): Metric {
  return new Metric({
    namespace: 'AWS/AutoScaling',
    metricName,
    dimensionsMap: { AutoScalingGroupName: name },
    statistic: metricName === 'GroupInServiceInstances' ? 'Maximum' : 'Minimum',
    period,
    label: `${name} ${metricName}`,
  });
}

/** Returns a metric of the GPUs of a group, which its agents write. */
function gpuMetric(metricName: string, name: string): Metric {
  return new Metric({
    namespace: EMBEDDED_NAMESPACE,
    metricName,
    dimensionsMap: { Service: name },
    period: MINUTE,
    label: name,
  });
}
