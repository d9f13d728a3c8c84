import { listOf } from '../aws-answers.ts';
import { DISK_GB_FREE, propertiesOf, type ServiceTasks } from '../deploy-templates.ts';
import type { Deployment } from './deployment.ts';
import { alarmedMetricsOf, idleMetricsOf, insightsOf } from './metrics.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Prices an idle deployment. */
export function priceIdle(deployment: Deployment): readonly PricedPart[] {
  const { templates, services } = deployment;
  const of = (type: string) => propertiesOf(templates, type);
  const balancers = of('AWS::ElasticLoadBalancingV2::LoadBalancer');
  const parts = [
    ...services.map((service) => pricePart(`tasks of ${service.name}`, service.count, taskMonth(service))),
    pricePart(
      'public addresses of tasks',
      services.reduce((sum, { hasPublicAddresses, count }) => sum + (hasPublicAddresses ? count : 0), 0),
      PRICES.publicAddressHour * HOURS,
    ),
    pricePart(
      'NAT gateways with their addresses',
      of('AWS::EC2::NatGateway').length,
      (PRICES.natHour + PRICES.publicAddressHour) * HOURS,
    ),
    pricePart('interface endpoints, one a zone', endpointsIn(templates), PRICES.endpointHour * HOURS),
    pricePart('clusters of EKS', of('AWS::EKS::Cluster').length, PRICES.clusterHour * HOURS),
    pricePart('load balancers', balancers.length, PRICES.balancerHour * HOURS),
    pricePart(
      'public addresses of load balancers',
      balancers.reduce((sum, { Scheme, Subnets }) => sum + (isPublic(Scheme) ? listOf(Subnets).length : 0), 0),
      PRICES.publicAddressHour * HOURS,
    ),
    pricePart('secrets', of('AWS::SecretsManager::Secret').length, PRICES.secretMonth),
    pricePart('keys of KMS', keysIn(templates), PRICES.keyMonth),
    pricePart('metrics of container insights', insightsOf(deployment), PRICES.metricMonth),
    pricePart('custom metrics of containers', idleMetricsOf(deployment), PRICES.metricMonth),
    pricePart('metrics that alarms watch', alarmedMetricsOf(deployment), PRICES.alarmedMetricMonth),
    pricePart('composite alarms', of('AWS::CloudWatch::CompositeAlarm').length, PRICES.compositeAlarmMonth),
    pricePart('dashboards', of('AWS::CloudWatch::Dashboard').length, PRICES.dashboardMonth),
    pricePart('private zones', of('AWS::ServiceDiscovery::PrivateDnsNamespace').length, PRICES.zoneMonth),
    pricePart('firewalls', of('AWS::WAFv2::WebACL').length, PRICES.firewallMonth),
    pricePart('rules of firewalls', rulesIn(templates), PRICES.firewallRuleMonth),
    pricePart('budgets', of('AWS::Budgets::Budget').length, PRICES.budgetMonth),
  ];
  return parts.filter(({ count }) => count > 0);
}

/** Returns the cost of one task for a month, in US$. */
export function taskMonth({ cores, gb, diskGb }: ServiceTasks): number {
  return (cores * PRICES.vcpuHour + gb * PRICES.gbHour + (diskGb - DISK_GB_FREE) * PRICES.diskGbHour) * HOURS;
}

/** Whether a load balancer faces the internet; one without a scheme does. */
function isPublic(scheme: unknown): boolean {
  return scheme !== 'internal';
}

function endpointsIn(templates: readonly unknown[]): number {
  return propertiesOf(templates, 'AWS::EC2::VPCEndpoint').reduce(
    (sum, { VpcEndpointType, SubnetIds }) => sum + (VpcEndpointType === 'Interface' ? listOf(SubnetIds).length : 0),
    0,
  );
}

function rulesIn(templates: readonly unknown[]): number {
  return propertiesOf(templates, 'AWS::WAFv2::WebACL').reduce((sum, { Rules }) => sum + listOf(Rules).length, 0);
}

/** Returns the number of keys that the templates make or name. */
function keysIn(templates: readonly unknown[]): number {
  const named = JSON.stringify(templates).match(/arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+/g) ?? [];
  return new Set(named).size + propertiesOf(templates, 'AWS::KMS::Key').length;
}
