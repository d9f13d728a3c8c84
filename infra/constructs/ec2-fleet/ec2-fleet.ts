import { Annotations, Aws } from 'aws-cdk-lib';
import type { AutoScalingGroup } from 'aws-cdk-lib/aws-autoscaling';
import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import {
  type CapacityOption,
  type Ec2FleetSettings,
  type GivenTypes,
  groupNameOf,
  optionIdOf,
  replicasMinOf,
  replicasPerInstance,
  SettingsError,
  type StartImage,
  typeOf,
  warningsOfFleet,
} from '../../settings/index.ts';
import { ecrImageOf } from '../ecr-image.ts';
import { completeEnvironment } from '../given-environment.ts';
import { createLogGroup } from '../log-groups.ts';
import type { Network } from '../network.ts';
import { createCapacityGroup, describeGroup } from './capacity-group.ts';
import { hostEnvironment, workerArguments } from './host-environment.ts';
import { createInstanceRole } from './instance-role.ts';
import { createLaunchTemplate, diskGibOf } from './launch-template.ts';
import { renderUserData } from './user-data.ts';

export interface Ec2FleetProps {
  /** Name of the deployment. */
  readonly deployment: string;
  /** Name of the fleet in the settings. */
  readonly fleetName: string;
  readonly fleet: Ec2FleetSettings;
  readonly types: GivenTypes;
  /** Image that the machines start from. */
  readonly image: StartImage;
  readonly network: Network;
  /** Variables that name the tables, NATS and secrets of the deployment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** Key of the facts about an option in the template of its group: `stator deploy` reads them. */
const OPTION_FACTS = 'stator:option';

/** One option of a fleet. */
export interface FleetOption {
  readonly id: string;
  readonly option: CapacityOption;
  readonly group: AutoScalingGroup;
}

/**
 * Workers with GPUs: an Auto Scaling group for each way to get machines. On each machine, an agent (`stator host`)
 * starts the workers, holds the machine out of service until they serve, and drains them before it ends.
 *
 *     planner ──> group 0-on-demand ──> machine: agent ──> worker, worker
 *            └──> group 1-spot      ──> machine: agent ──> worker, worker
 */
export class Ec2Fleet extends Construct implements IGrantable {
  /** Role of the machines. */
  readonly grantPrincipal: IPrincipal;
  readonly options: readonly FleetOption[];
  /** Names of the groups of the options. */
  readonly groupNames: readonly string[];

  constructor(scope: Construct, id: string, props: Ec2FleetProps) {
    super(scope, id);
    const { deployment, fleetName, fleet, types, network } = props;
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const setUpLogs = createLogGroup(this, props.logRetentionDays, 'SetUpLogs');
    const names = fleet.options.map((option, at) => groupNameOf(deployment, fleetName, fleet, optionIdOf(option, at)));
    this.groupNames = names;
    const role = createInstanceRole(this, { fleet, groups: names, logGroup });
    this.grantPrincipal = role.grantPrincipal;
    const environment = checkedEnvironment(this, props);
    this.options = fleet.options.map((option, at) => {
      const optionId = optionIdOf(option, at);
      const name = names[at] ?? '';
      const place = new Construct(this, `Option${at}`);
      const template = createLaunchTemplate(place, {
        fleet,
        option,
        types,
        image: props.image,
        role,
        name,
        group: network.workerSecurityGroup,
        userData: userDataOf(props, { ...hostEnvironment(fleet, option, name), ...environment }, logGroup),
      });
      const vpc = network.vpc as IVpc;
      const subnets = subnetsOf(network, option.zones);
      const group = createCapacityGroup(place, { fleet, option, template, vpc, subnets, name, setUpLogs });
      describeGroup(group, OPTION_FACTS, factsOf(props, option, at));
      return { id: optionId, option, group };
    });
    for (const { path, message } of warningsOfFleet(fleet)) {
      const where = `fleets.${fleetName}.${path.join('.')}`;
      Annotations.of(this).addWarningV2(`stator:${where}`, `${where}: ${message}`);
    }
  }
}

/** Returns the variables of the workers, held against what `stator worker` takes. */
function checkedEnvironment(scope: Construct, { fleet, fleetName, environment }: Ec2FleetProps) {
  const { generation } = fleet;
  return completeEnvironment(scope, {
    process: 'worker',
    argv: workerArguments(fleet),
    own: { ...environment, ...(generation === undefined ? {} : { DYN_NAMESPACE_WORKER_SUFFIX: generation }) },
    given: fleet.environment,
    secrets: [],
    path: `fleets.${fleetName}`,
  });
}

/**
 * Bytes of the program that a machine starts with. EC2 takes 16 KiB. The real names of resources are longer than their
 * placeholders here.
 */
const USER_DATA_BYTES_MAX = 14_000;

function userDataOf(
  { fleet, fleetName }: Ec2FleetProps,
  environment: Readonly<Record<string, string>>,
  { logGroupName: logGroup }: ILogGroup,
): string {
  const { startSecs, drainSecs, engine } = fleet;
  const ecr = ecrImageOf(engine.image);
  const text = renderUserData({ environment, ecr, region: Aws.REGION, logGroup, startSecs, drainSecs });
  const bytes = Buffer.byteLength(text);
  if (bytes <= USER_DATA_BYTES_MAX) return text;
  const message = `environment, arguments and engine.args make ${bytes} bytes of user data: allowed are ${USER_DATA_BYTES_MAX}`;
  throw new SettingsError(`fleets.${fleetName}: ${message}`);
}

/** Returns the subnets of the zones that an option names, or all of them. */
function subnetsOf({ vpc, taskSubnets }: Network, zones: readonly string[] | undefined): SubnetSelection {
  if (zones === undefined) return taskSubnets;
  const { subnets } = vpc.selectSubnets(taskSubnets);
  return { subnets: subnets.filter(({ availabilityZone }) => zones.includes(availabilityZone)) };
}

/** Returns the machines that the planner keeps of an option: what the fewest replicas need beyond earlier ones. */
function machinesMinOf(fleet: Ec2FleetSettings, types: GivenTypes, at: number): number {
  const replicasOf = (each: CapacityOption) => Math.max(1, replicasPerInstance(each, fleet, types));
  const earlier = fleet.options.slice(0, at).reduce((sum, each) => sum + each.max * replicasOf(each), 0);
  const option = fleet.options[at]!; // `at` is its place
  const machines = Math.ceil((replicasMinOf(fleet) - earlier) / replicasOf(option));
  return Math.min(option.max, Math.max(0, machines));
}

/** Facts that the prices and quotas of an option follow from. */
function factsOf({ fleet, fleetName, types }: Ec2FleetProps, option: CapacityOption, at: number): object {
  const { market, max, warmPool } = option;
  return {
    fleet: fleetName,
    model: fleet.model,
    id: optionIdOf(option, at),
    market,
    min: machinesMinOf(fleet, types, at),
    max,
    ...(warmPool === undefined ? {} : { warm: warmPool.min, warmState: warmPool.state }),
    diskGib: diskGibOf(fleet),
    types: option.types.map((name) => {
      const { vcpus, quota, hourUsd } = typeOf(name, types) ?? {};
      return { name, vcpus, quota, ...(hourUsd === undefined ? {} : { hourUsd }) };
    }),
    ...(option.zones === undefined ? {} : { zones: option.zones }),
  };
}
