import { fieldsOf } from '../aws-answers.ts';
import { propertiesOf } from '../deploy-templates.ts';
import type { Deployment } from './deployment.ts';
import { taskMonth } from './idle.ts';
import { priceLog, priceRequests } from './load.ts';
import { askedMetricsOf, functionMetricsOf } from './metrics.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Costs of a deployment whose ceilings are all reached all the time, beside the idle costs. */
export interface Worst {
  /** Costs without the seconds of the function. */
  readonly parts: readonly PricedPart[];
  /** Seconds of the function with its most concurrent streams; several entries if no setting bounds them. */
  readonly functions: readonly WorstFunction[];
}

export interface WorstFunction {
  /** Concurrent streams. */
  readonly streams: number;
  readonly part: PricedPart;
}

/** Concurrent streams if none are reserved: a bound that production has, and the quota of most accounts. */
const STREAMS_UNRESERVED = [200, 1000];
const SECONDS = HOURS * 3600;
/** Capacity of one unit of a load balancer. */
const CAPACITY = { connections: 3000, connectionsPerSecond: 25 } as const;

export function priceWorst(deployment: Deployment): Worst {
  const { services, streaming, gatewayRate, balancerRate, guardsGateway, guardsBalancer } = deployment;
  const guarded = (guardsGateway ? gatewayRate : 0) + (guardsBalancer ? balancerRate : 0);
  const parts = [
    ...services.map((service) => {
      const address = service.hasPublicAddresses ? PRICES.publicAddressHour * HOURS : 0;
      const more = service.countMax - service.count;
      return pricePart(`more tasks of ${service.name}`, more, taskMonth(service) + address);
    }),
    pricePart('capacity units of load balancers', capacityUnits(deployment), PRICES.capacityUnitHour * HOURS),
    ...priceRequests(gatewayRate * SECONDS, guarded * SECONDS),
    pricePart('requests at the function', gatewayRate * SECONDS, PRICES.requestMillion / 1e6),
    priceLog((gatewayRate + balancerRate) * SECONDS),
    pricePart(
      'metrics told by log while asked',
      functionMetricsOf(deployment) + askedMetricsOf(deployment),
      PRICES.metricMonth,
    ),
  ];
  return {
    parts: parts.filter(({ count }) => count > 0),
    functions:
      streaming === undefined ? [] : streamsOf(streaming).map((streams) => priceStreams(streams, streaming.gb)),
  };
}

function streamsOf({ reserved }: { readonly reserved: number | undefined }): readonly number[] {
  return reserved === undefined ? STREAMS_UNRESERVED : [reserved];
}

function priceStreams(streams: number, gb: number): WorstFunction {
  return { streams, part: pricePart('seconds of the function', streams * SECONDS, gb * PRICES.gbSecond) };
}

/** Returns the units for the most streams of tasks, or for new connections, whichever are more. */
function capacityUnits({ templates, services, balancerRate }: Deployment): number {
  const behind = services.filter(({ isBehindBalancer }) => isBehindBalancer);
  if (behind.length === 0) return 0;
  const perTask = propertiesOf(templates, 'AWS::ApplicationAutoScaling::ScalingPolicy').reduce((most, policy) => {
    const tracking = fieldsOf(policy.TargetTrackingScalingPolicyConfiguration);
    const { MetricName } = fieldsOf(tracking.CustomizedMetricSpecification);
    return MetricName === 'ActiveStreams' ? Math.max(most, Number(tracking.TargetValue)) : most;
  }, 0);
  const streams = behind.reduce((sum, { countMax }) => sum + countMax * perTask, 0);
  return Math.max(streams / CAPACITY.connections, balancerRate / CAPACITY.connectionsPerSecond);
}
