import { EMBEDDED_METRICS } from '../../telemetry/index.ts';
import { fieldsOf, listOf } from '../aws-answers.ts';
import { propertiesOf } from '../deploy-templates.ts';
import type { Deployment } from './deployment.ts';

/** Numbers of metrics that container insights report. */
const INSIGHTS = { cluster: 7, service: 8, family: 11 } as const;

/** Returns the number of metrics of container insights, for the clusters that have them. */
export function insightsOf({ templates, services }: Deployment): number {
  const clusters = propertiesOf(templates, 'AWS::ECS::Cluster').filter(({ ClusterSettings }) =>
    listOf(ClusterSettings).some((each) => {
      const { Name, Value } = fieldsOf(each);
      return Name === 'containerInsights' && Value !== 'disabled';
    }),
  );
  if (clusters.length === 0) return 0;
  const families = propertiesOf(templates, 'AWS::ECS::TaskDefinition').length;
  return clusters.length * INSIGHTS.cluster + services.length * INSIGHTS.service + families * INSIGHTS.family;
}

/** Returns the number of metrics that alarms watch. AWS bills each metric in an alarm's formula. */
export function alarmedMetricsOf({ templates }: Deployment): number {
  return propertiesOf(templates, 'AWS::CloudWatch::Alarm').reduce((sum, { Metrics }) => {
    const read = listOf(Metrics).filter((each) => 'MetricStat' in fieldsOf(each)).length;
    return sum + Math.max(1, read);
  }, 0);
}

/** Returns the number of metrics that containers report in their log while idle. */
export function idleMetricsOf(deployment: Deployment): number {
  return tellersOf(deployment) * countMetrics(deployment.models, 'always');
}

/** Returns the number of metrics that the function reports in its log while it gets requests. */
export function functionMetricsOf({ streaming, models }: Deployment): number {
  return streaming === undefined ? 0 : countMetrics(models, 'asked') + countMetrics(models, 'byRelease');
}

/** Returns the number of further metrics that containers report under load, which reaches them by a load balancer. */
export function askedMetricsOf({ services, models }: Deployment): number {
  return services.some(({ isBehindBalancer }) => isBehindBalancer) ? countMetrics(models, 'asked') : 0;
}

/** Returns the number of services whose tasks report metrics in their log. */
function tellersOf({ templates }: Deployment): number {
  return propertiesOf(templates, 'AWS::ECS::TaskDefinition').filter(({ ContainerDefinitions }) =>
    listOf(ContainerDefinitions).some((container) =>
      listOf(fieldsOf(container).Environment).some((each) => {
        const { Name, Value } = fieldsOf(each);
        return Name === 'STATOR_EMF' && Value === 'on';
      }),
    ),
  ).length;
}

/** Counts a metric for each name and each of its sets of dimensions, and for each model. A function has one release. */
function countMetrics(models: number, told: 'always' | 'asked' | 'byRelease'): number {
  return Object.values(EMBEDDED_METRICS).reduce((sum, { by, isGauge }) => {
    if (isGauge !== (told === 'always')) return sum;
    const sets: readonly (readonly string[])[] = by;
    return sets
      .filter((set) => set.includes('FunctionVersion') === (told === 'byRelease'))
      .reduce((all, set) => all + (set.includes('Model') ? models : 1), sum);
  }, 0);
}
