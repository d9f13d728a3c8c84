import { MathExpression, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { CfnNatGateway } from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { Settings } from '../../settings/index.ts';
import type { FleetStore } from '../fleet-store.ts';
import { MINUTE } from '../metrics.ts';
import type { Network } from '../network.ts';
import { Alarms, type Watch } from './alarms.ts';

/** A read takes a few. DynamoDB tells averages, of which a minute's has many reads. */
const LATENCY_MS_MAX = 20;
const THROTTLES_MAX = 10;
const DROPPED_PACKETS_MAX = 100;

interface DataObservabilityProps {
  readonly store: FleetStore;
  readonly network: Network;
  readonly settings: Settings;
}

/** The alarms of what lasts: tables, and the way of private tasks to the internet. */
export class DataObservability extends Construct {
  constructor(scope: Construct, id: string, { store, network, settings }: DataObservabilityProps) {
    super(scope, id);
    const alarms = new Alarms(this, settings.alarms);
    for (const watch of [...tableWatches(store), ...natWatches(network)]) alarms.add(watch);
  }
}

interface NamedTable {
  readonly tableName: string;
}

function tableMetric(
  metricName: string,
  { tableName: TableName }: NamedTable,
  statistic: string,
  Operation?: string,
): Metric {
  return new Metric({
    namespace: 'AWS/DynamoDB',
    metricName,
    dimensionsMap: { TableName, ...(Operation === undefined ? {} : { Operation }) },
    statistic,
    period: MINUTE,
  });
}

/** Returns the watch of requests to at most five tables that DynamoDB throttles. */
export function throttleWatch(tables: readonly NamedTable[]): Watch {
  const throttled = tables.flatMap((table) =>
    ['ReadThrottleEvents', 'WriteThrottleEvents'].map((name) => tableMetric(name, table, 'Sum')),
  );
  return {
    id: 'TableThrottles',
    metric: combined(throttled, 'sum', 'Requests that tables throttled'),
    threshold: THROTTLES_MAX,
    about: 'DynamoDB throttles requests to tables',
    paragraph: 'tables-throttle',
    missing: 'quiet',
  };
}

function tableWatches({ discovery, routerState, responses, keys, passedSecrets }: FleetStore): readonly Watch[] {
  const failed = [
    tableMetric('SystemErrors', discovery, 'Sum', 'GetItem'),
    tableMetric('SystemErrors', discovery, 'Sum', 'BatchGetItem'),
    tableMetric('SystemErrors', discovery, 'Sum', 'UpdateItem'),
    tableMetric('SystemErrors', routerState, 'Sum', 'UpdateItem'),
    tableMetric('SystemErrors', responses, 'Sum', 'PutItem'),
    tableMetric('SystemErrors', responses, 'Sum', 'GetItem'),
    tableMetric('SystemErrors', keys, 'Sum', 'GetItem'),
    tableMetric('SystemErrors', passedSecrets, 'Sum', 'GetItem'),
  ];
  const slow = [
    tableMetric('SuccessfulRequestLatency', discovery, 'Average', 'GetItem'),
    tableMetric('SuccessfulRequestLatency', discovery, 'Average', 'UpdateItem'),
    tableMetric('SuccessfulRequestLatency', keys, 'Average', 'GetItem'),
  ];
  return [
    throttleWatch([discovery, routerState, responses, keys, passedSecrets]),
    {
      id: 'TableErrors',
      metric: combined(failed, 'sum', 'Requests that tables failed'),
      threshold: 1,
      about: 'DynamoDB fails requests to tables',
      paragraph: 'tables-fail-or-are-slow',
      missing: 'quiet',
    },
    {
      id: 'TableLatency',
      metric: combined(slow, 'max', 'Slowest kind of request, ms'),
      threshold: LATENCY_MS_MAX,
      about: 'DynamoDB answers slowly',
      paragraph: 'tables-fail-or-are-slow',
      missing: 'quiet',
    },
  ];
}

/** Returns the watches of the NAT gateways, or none if the deployment does not own the network. */
function natWatches(network: Network): readonly Watch[] {
  const gateways = network.node.findAll().filter((child) => child instanceof CfnNatGateway);
  if (gateways.length === 0) return [];
  const of = (metricName: string) =>
    gateways.map(
      ({ attrNatGatewayId: NatGatewayId }) =>
        new Metric({
          namespace: 'AWS/NATGateway',
          metricName,
          dimensionsMap: { NatGatewayId },
          statistic: 'Sum',
          period: MINUTE,
        }),
    );
  const about = 'the NAT gateway loses connections';
  const paragraph = 'the-nat-gateway-loses-connections';
  return [
    {
      id: 'NatPorts',
      metric: combined(of('ErrorPortAllocation'), 'sum', 'Connections without a port'),
      threshold: 1,
      about,
      paragraph,
      missing: 'quiet',
    },
    {
      id: 'NatDrops',
      metric: combined(of('PacketsDropCount'), 'sum', 'Packets that were dropped'),
      threshold: DROPPED_PACKETS_MAX,
      about,
      paragraph,
      missing: 'quiet',
    },
  ];
}

/** Combines several metrics into one number. A metric without data counts as 0. */
export function combined(metrics: readonly Metric[], how: 'sum' | 'max', label: string): MathExpression {
  const names = metrics.map((_, at) => `m${at}`);
  const values = names.map((name) => `FILL(${name}, 0)`);
  return new MathExpression({
    expression: how === 'sum' ? values.join(' + ') : `MAX([${values.join(', ')}])`,
    usingMetrics: Object.fromEntries(metrics.map((metric, at) => [`m${at}`, metric])),
    period: MINUTE,
    label,
  });
}
