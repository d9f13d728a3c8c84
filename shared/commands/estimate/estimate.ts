import { optionsIn } from '../deploy-machines.ts';
import type { SynthesizedStack } from '../deploy-releases.ts';
import { readDeployment } from './deployment.ts';
import { priceIdle } from './idle.ts';
import { type DeployLoad, priceLoad } from './load.ts';
import { priceMachineImages } from './machine-images.ts';
import { priceMachines } from './machines.ts';
import { pricePlanner } from './planner.ts';
import { PRICES, type PricedPart } from './prices.ts';
import { priceWorst, type Worst } from './worst.ts';

/** Load, and what machines cost. */
export interface Assumptions extends DeployLoad {
  /** Percent by which spot machines cost less than the list price. @default 0 */
  readonly spotDiscount?: number;
}

export interface Estimate {
  /** Costs of an idle deployment. */
  readonly idle: readonly PricedPart[];
  /** Costs that the load adds. */
  readonly load: readonly PricedPart[];
  readonly worst: Worst;
  /** Cost in US$ of a request that waits for a worker for the longest allowed time. */
  readonly held: { readonly secs: number; readonly dollars: number } | undefined;
  /**
   * Streams at a time, on average, from which on two container edges with a load balancer cost less than the function.
   */
  readonly streamsForContainers: number | undefined;
  /** Options of fleets whose machines have no known price. */
  readonly unpriced: readonly string[];
}

/** Number of zones in which a load balancer has an address. */
const ZONES = 3;

/** Costs that the estimate leaves out. */
export const LEFT_OUT: readonly string[] = [
  'traffic: 0.09 a GB to the internet, 0.045 a GB through a NAT gateway, 0.01 a GB each way between zones, and what load balancers pass on beyond 1 GB an hour',
  'what the gateway charges for streaming, beside the request',
  'tables, files and images by the GB, reads and writes of tables (leases about 1 a month for each process, keys and responses by use), calls of keys',
  'other lines of logs, flow logs and container insights (0.50 a GB), metrics of more than one release at a time',
  'requests that are refused: a firewall and a gateway may charge for them',
  'builds of machine images that someone starts, and what EBS charges for machineImages.NAME.initializationMibs',
  'weights in a bucket, images of ECR, machines of your own, free tiers, discounts and taxes',
];

/** Prices synthesised stacks. It ignores resources that it does not know. */
export function estimateDeployment(stacks: readonly SynthesizedStack[], load: Assumptions): Estimate {
  const deployment = readDeployment(stacks);
  const { gb = 0, holdSecs } = deployment.streaming ?? {};
  const containers = 2 * (PRICES.vcpuHour + 2 * PRICES.gbHour) + PRICES.balancerHour + ZONES * PRICES.publicAddressHour;
  const machines = priceMachines(optionsIn(deployment.templates), load.spotDiscount ?? 0);
  const worst = priceWorst(deployment);
  return {
    idle: [
      ...priceIdle(deployment),
      ...pricePlanner(deployment.templates),
      ...priceMachineImages(deployment.templates),
      ...machines.idle.filter(({ count }) => count > 0),
    ],
    load: priceLoad(deployment, load),
    worst: { ...worst, parts: [...worst.parts, ...machines.worst.filter(({ count }) => count > 0)] },
    unpriced: machines.unpriced,
    held: holdSecs === undefined ? undefined : { secs: holdSecs, dollars: holdSecs * gb * PRICES.gbSecond },
    streamsForContainers: gb === 0 ? undefined : containers / (gb * PRICES.gbSecond * 3600),
  };
}
