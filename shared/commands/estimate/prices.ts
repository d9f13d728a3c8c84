/** US$, list prices of us-east-1. */
export const PRICES = {
  vcpuHour: 0.03238, // Fargate on ARM
  gbHour: 0.00356,
  diskGbHour: 0.000111, // beyond 20 GB
  publicAddressHour: 0.005,
  natHour: 0.045,
  endpointHour: 0.01, // of an interface endpoint, in each zone
  balancerHour: 0.0225,
  capacityUnitHour: 0.008, // of a load balancer
  secretMonth: 0.4,
  keyMonth: 1,
  metricMonth: 0.3, // of container insights or reported in a log
  alarmedMetricMonth: 0.1,
  compositeAlarmMonth: 0.5,
  dashboardMonth: 3,
  zoneMonth: 0.5,
  firewallMonth: 5,
  firewallRuleMonth: 1,
  budgetMonth: 0, // one that tells and does nothing
  firewallMillion: 0.6,
  gatewayMillion: 3.5,
  requestMillion: 0.2,
  tableWriteMillion: 0.625, // units of 1 KB, on demand
  tableReadMillion: 0.125, // units of 4 KB
  queueMillion: 0.5, // calls of a FIFO queue
  scheduleMillion: 1, // of EventBridge Scheduler
  gbSecond: 0.0000133334, // of a function on ARM
  logGb: 0.5,
  snapshotGibMonth: 0.05,
  gp3GibMonth: 0.08,
  gp3MibsMonth: 0.04, // beyond 125 MiB/s
  gp3IopsMonth: 0.005, // beyond 3,000
  clusterHour: 0.1, // of EKS, in the standard support of its version
  autoModeShare: 0.12, // of the on-demand price of a node, by estimate: EKS names a price for each type
} as const;

export const HOURS = 730;

/** One kind of resource and its cost a month, in US$. */
export interface PricedPart {
  readonly name: string;
  readonly count: number;
  readonly dollars: number;
}

/** @param each US$ a month */
export function pricePart(name: string, count: number, each: number): PricedPart {
  return { name, count, dollars: count * each };
}

export function sumDollars(parts: readonly PricedPart[]): number {
  return parts.reduce((sum, { dollars }) => sum + dollars, 0);
}
