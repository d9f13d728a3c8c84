import { Duration } from 'aws-cdk-lib';
import { Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import {
  EMBEDDED_METRICS,
  EMBEDDED_NAMESPACE,
  type EmbeddedMetric,
  INDEX_METRICS,
  type IndexMetric,
  PLANNER_METRICS,
  type PlannerMetric,
  POD_METRICS,
  type PodMetric,
} from '../../shared/telemetry/index.ts';

/** Period of all metrics whose values come more often. */
export const MINUTE = Duration.minutes(1);
/** Period of what happens seldom, and matters only if it goes on. */
export const FIVE_MINUTES = Duration.minutes(5);

/**
 * Returns a metric that the product publishes in lines of its log.
 * @param source the dimension that says which process reports it, and its value
 * @param by further dimensions
 * @throws Error if no process publishes it with these
 */
export function embeddedMetric(
  name: EmbeddedMetric | IndexMetric | PlannerMetric | PodMetric,
  source: Readonly<Record<string, string>>,
  { dimensionsMap: by = {}, ...options }: MetricOptions = {},
): Metric {
  const all = { ...EMBEDDED_METRICS, ...INDEX_METRICS, ...PLANNER_METRICS, ...POD_METRICS };
  const sets: readonly (readonly string[])[] = all[name].by;
  const labels = Object.keys(by).join();
  if (!sets.some((set) => set.join() === labels)) throw new Error(`nothing tells ${name} by ${labels || 'itself'}`);
  return new Metric({
    namespace: EMBEDDED_NAMESPACE,
    metricName: name,
    period: MINUTE,
    dimensionsMap: { ...source, ...by },
    label: name,
    ...options,
  });
}

/** Returns a metric of container insights about a service. */
export function serviceMetric(
  metricName: string,
  { cluster, serviceName }: { readonly cluster: { readonly clusterName: string }; readonly serviceName: string },
  options: MetricOptions = {},
): Metric {
  return new Metric({
    namespace: 'ECS/ContainerInsights',
    metricName,
    dimensionsMap: { ClusterName: cluster.clusterName, ServiceName: serviceName },
    period: MINUTE,
    statistic: 'Minimum',
    ...options,
  });
}
