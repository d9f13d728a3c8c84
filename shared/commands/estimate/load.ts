import type { Deployment } from './deployment.ts';
import { functionMetricsOf } from './metrics.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Load of a deployment, through its function. */
export interface DeployLoad {
  readonly requestsPerDay: number;
  /** Average seconds of an answer. */
  readonly secondsPerRequest: number;
}

/** Size of the log line of one request: about 1 KB. */
const LOG_GB_PER_REQUEST = 1e-6;

/** Prices the load. */
export function priceLoad(deployment: Deployment, load: DeployLoad): readonly PricedPart[] {
  const requests = load.requestsPerDay * (HOURS / 24);
  const seconds = requests * load.secondsPerRequest;
  const metrics = requests === 0 ? 0 : functionMetricsOf(deployment);
  return [
    ...priceRequests(requests, deployment.guardsGateway ? requests : 0),
    pricePart('requests at the function', requests, PRICES.requestMillion / 1e6),
    pricePart('seconds of the function', seconds, (deployment.streaming?.gb ?? 0) * PRICES.gbSecond),
    priceLog(requests),
    pricePart('metrics told by the function', metrics, PRICES.metricMonth),
  ];
}

/** @param guarded requests that a firewall inspects, those at the gateway and others */
export function priceRequests(atGateway: number, guarded: number): readonly PricedPart[] {
  return [
    pricePart('requests at the gateway', atGateway, PRICES.gatewayMillion / 1e6),
    ...(guarded === 0 ? [] : [pricePart('requests at firewalls', guarded, PRICES.firewallMillion / 1e6)]),
  ];
}

export function priceLog(requests: number): PricedPart {
  return pricePart('lines of the log for requests', requests, LOG_GB_PER_REQUEST * PRICES.logGb);
}
