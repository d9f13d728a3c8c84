import * as z from 'zod';
import { Arguments, Environment } from './environment.ts';
import {
  EndsAt,
  Engine,
  Generation,
  Market,
  Pool,
  Replicas,
  ReservationId,
  SECS_MAX,
  WeightBytes,
  WeightsKey,
  WeightsUri,
} from './fleet-parts.ts';
import { TypeName } from './gpu-types.ts';
import { ModelName, Name } from './names.ts';
import { ParameterName, RootDevice } from './ssm.ts';

/** Machines of one option: its Auto Scaling group may have no more. */
const MACHINES_MAX = 500;

const WarmPool = z.strictObject({
  /** Machines that wait. */
  min: z.int().min(1).max(MACHINES_MAX).default(1),
  /** `Stopped` costs only the disk. `Running` costs as much as a machine that serves. */
  state: z.enum(['Stopped', 'Running']).default('Stopped'),
});

const Option = z.strictObject({
  /** Types of machines, best first. All have the same number of GPUs, with the same memory per GPU. */
  types: z.array(TypeName).min(1).max(40),
  market: Market,
  /** Zones in which the machines start: those that offer the types. @default all zones of the network */
  zones: z.array(z.string().min(1)).min(1).max(6).optional(),
  /** Reservation, or capacity block, that the machines use. */
  reservationId: ReservationId,
  /** Most machines. */
  max: z.int().min(1).max(MACHINES_MAX),
  /** Prepared machines that wait beside those that serve. @default none */
  warmPool: WarmPool.optional(),
  /** Time at which a capacity block or a reservation ends, as 2027-01-31T11:30:00Z. */
  endsAt: EndsAt,
});

const Weights = z.strictObject({
  uri: WeightsUri,
  bytes: WeightBytes,
  /** `stream`: the engine reads them from the bucket. `disk`: the machine fetches them before it starts the engine. */
  mode: z.enum(['stream', 'disk']).default('stream'),
  /** Key of KMS that encrypts the bucket. @default one of S3's own */
  keyArn: WeightsKey,
});

const Ami = z.strictObject({
  /**
   * Parameter of Systems Manager that names the image of the machines. Each machine that starts reads it again.
   * @default that of the newest image of AWS with driver and Docker, for x86
   */
  parameter: ParameterName.optional(),
  /** Name of the root volume in that image. @default /dev/xvda */
  rootDevice: RootDevice.optional(),
  /** Entry of `machineImages`: an image that the deployment builds, with the image of the workers in it. */
  machineImage: Name.optional(),
});

/** Workers with GPUs, on machines of EC2. Auto Scaling groups start them, one for each option, in the order given. */
export const Ec2Fleet = z.strictObject({
  kind: z.literal('ec2'),
  /** Name of a model in `models`. */
  model: ModelName,
  /** Part of a request that its workers do. */
  pool: Pool,
  /** Suffix of the namespace of its workers: another generation of the fleet may run beside this one. @default none */
  generation: Generation,
  engine: Engine,
  /** Weights of the model. @default none: the image has them, or the engine downloads them */
  weights: Weights.optional(),
  /** Ways to get machines. The first that gives some is taken; the later ones make up for what it lacks. */
  options: z.array(Option).min(1).max(8),
  /** Replicas of the model, on all machines together. */
  replicas: Replicas,
  /** Time from the start of a machine to its first answer. A machine that takes twice as long is given up. */
  startSecs: z.int().min(30).max(SECS_MAX).default(480),
  /** Longest time that running answers get when their machine is taken away. */
  drainSecs: z.int().min(0).max(SECS_MAX).default(900),
  ami: Ami.prefault({}),
  /** Adds EFA interfaces, and puts the machines close to each other in one zone. */
  efa: z.boolean().default(false),
  /** Lets operators open a shell on a machine by Systems Manager. */
  ssm: z.boolean().default(false),
  /** Further settings of the workers, by their variables. */
  environment: Environment,
  /** Further settings of the workers that have a flag only. */
  arguments: Arguments,
});

/** Settings of a fleet on EC2, with their defaults. */
export type Ec2FleetSettings = z.infer<typeof Ec2Fleet>;
/** One option of such a fleet. */
export type CapacityOption = Ec2FleetSettings['options'][number];

/** Returns the market as the metadata of machines name it: one in a reservation is an on-demand instance. */
export function marketOf({ market }: Pick<CapacityOption, 'market'>): Exclude<CapacityOption['market'], 'reservation'> {
  return market === 'reservation' ? 'on-demand' : market;
}

/** Returns the id of an option: its place, and the market as machines know it. */
export function optionIdOf(option: Pick<CapacityOption, 'market'>, at: number): string {
  return `${at}-${marketOf(option)}`;
}

/** Returns the fewest replicas that a planner keeps. Of two pools that do one half each, neither serves by itself. */
export function replicasMinOf({
  pool,
  replicas,
}: {
  readonly pool: Ec2FleetSettings['pool'];
  readonly replicas: { readonly min: number };
}): number {
  return pool === 'agg' ? replicas.min : Math.max(1, replicas.min);
}

/** Returns the name of the Auto Scaling group of an option. Another generation has other groups. */
export function groupNameOf(
  deployment: string,
  fleet: string,
  { generation }: Pick<Ec2FleetSettings, 'generation'>,
  optionId: string,
): string {
  return [deployment, fleet, ...(generation === undefined ? [] : [generation]), optionId].join('-');
}
