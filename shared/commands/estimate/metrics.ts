import { EMBEDDED_METRICS } from '../../telemetry/index.ts';
import { fieldsOf, listOf } from '../aws-answers.ts';
import { propertiesOf } from '../deploy-templates.ts';
import type { Deployment } from './deployment.ts';

/** Metrics that container insights tell. */
const INSIGHTS = { cluster: 7, service: 8, family: 11 } as const;

/** Metrics of container insights, where a cluster has them. */
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

/** Metrics that alarms watch: each is paid for, however many an alarm's formula takes. */
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

/** Metrics that the function tells by its log while it is asked. */
export function functionMetricsOf({ streaming, models }: Deployment): number {
  return streaming === undefined ? 0 : countMetrics(models, 'asked') + countMetrics(models, 'byRelease');
}

/** Metrics that containers tell beside those while they are asked, which takes a load balancer. */
export function askedMetricsOf({ services, models }: Deployment): number {
  return services.some(({ isBehindBalancer }) => isBehindBalancer) ? countMetrics(models, 'asked') : 0;
}

/** Services whose tasks tell metrics by their log. */
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

/** Each name with each of its sets of dimensions is a metric, and one for each model; a function is of one release. */
function countMetrics(models: number, told: 'always' | 'asked' | 'byRelease'): number {
  return Object.values(EMBEDDED_METRICS).reduce((sum, { by, isGauge }) => {
    if (isGauge !== (told === 'always')) return sum;
    const sets: readonly (readonly string[])[] = by;
    return sets
      .filter((set) => set.includes('FunctionVersion') === (told === 'byRelease'))
      .reduce((all, set) => all + (set.includes('Model') ? models : 1), sum);
  }, 0);
}
