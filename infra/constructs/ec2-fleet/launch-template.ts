import { Tags } from 'aws-cdk-lib';
import {
  BlockDeviceVolume,
  CfnLaunchTemplate,
  CfnPlacementGroup,
  EbsDeviceVolumeType,
  InstanceType,
  type ISecurityGroup,
  LaunchTemplate,
  MachineImage,
  UserData,
} from 'aws-cdk-lib/aws-ec2';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import {
  type CapacityOption,
  type Ec2FleetSettings,
  type GivenTypes,
  type StartImage,
  typeOf,
} from '../../settings/index.ts';

interface TemplateProps {
  readonly fleet: Ec2FleetSettings;
  readonly option: CapacityOption;
  readonly types: GivenTypes;
  readonly role: IRole;
  readonly group: ISecurityGroup;
  readonly userData: string;
  readonly image: StartImage;
  /** Name of the machines in the console. */
  readonly name: string;
}

/**
 * GiB of the image of the machine, that of the workers and compiled kernels. The default image of machines fills 75.
 * The disk of an image that a deployment builds has this size, because a machine's disk cannot be smaller than it.
 */
export const DISK_GIB = 150;
/** Room for the weights on the disk, and for a second copy of their largest files while they are fetched. */
const WEIGHTS_SHARE = 1.3;
const GIB = 2 ** 30;
/**
 * Speed of a disk, in MiB/s and in operations a second. EBS takes at least four operations for each MiB ("General
 * Purpose SSD volumes").
 */
export const DISK_SPEED = { throughput: 1000, iops: 4000 } as const;

/** Returns the size of the root volume, GiB. */
export function diskGibOf({ weights }: Pick<Ec2FleetSettings, 'weights'>): number {
  return DISK_GIB + (weights?.mode === 'disk' ? Math.ceil((weights.bytes * WEIGHTS_SHARE) / GIB) : 0);
}

/** Whether a group chooses among several types, or buys spot: then the group names the types. */
export function isMixed({ market, types }: CapacityOption): boolean {
  return market === 'spot' || types.length > 1;
}

/** Creates the template from which the machines of one option are made. */
export function createLaunchTemplate(scope: Construct, props: TemplateProps): LaunchTemplate {
  const { fleet, option, image } = props;
  const [type = ''] = option.types;
  const template = new LaunchTemplate(scope, 'Template', {
    machineImage: MachineImage.resolveSsmParameterAtLaunch(image.parameter),
    ...(isMixed(option) ? {} : { instanceType: new InstanceType(type) }),
    userData: UserData.custom(props.userData),
    role: props.role,
    securityGroup: props.group,
    requireImdsv2: true,
    httpPutResponseHopLimit: 1, // containers share the network of the machine
    blockDevices: [
      {
        deviceName: image.rootDevice,
        volume: BlockDeviceVolume.ebs(diskGibOf(fleet), {
          volumeType: EbsDeviceVolumeType.GP3,
          ...DISK_SPEED,
          encrypted: true,
          deleteOnTermination: true,
        }),
      },
    ],
  });
  Tags.of(template).add('Name', props.name);
  const { defaultChild } = template.node;
  if (!(defaultChild instanceof CfnLaunchTemplate)) throw new Error('a launch template is one resource');
  if (image.initializationMibs !== undefined)
    defaultChild.addPropertyOverride(INITIALIZATION, image.initializationMibs);
  reserve(defaultChild, option);
  if (fleet.efa) joinFabric(scope, defaultChild, props);
  return template;
}

/** Speed at which EBS fills the disk from the image ("Initialize Amazon EBS volumes"). */
const INITIALIZATION = 'LaunchTemplateData.BlockDeviceMappings.0.Ebs.VolumeInitializationRate';

/** Starts machines only in the reservation that the settings name: outside of it they would cost again. */
function reserve(template: CfnLaunchTemplate, { market, reservationId }: CapacityOption): void {
  if (reservationId === undefined) return;
  const data = 'LaunchTemplateData';
  template.addPropertyOverride(`${data}.CapacityReservationSpecification`, {
    CapacityReservationTarget: { CapacityReservationId: reservationId },
  });
  if (market === 'capacity-block')
    template.addPropertyOverride(`${data}.InstanceMarketOptions`, { MarketType: 'capacity-block' });
}

/** Gives the machines an EFA interface on each network card, close to each other ("Get started with EFA"). */
function joinFabric(scope: Construct, template: CfnLaunchTemplate, { option, types, group }: TemplateProps): void {
  const [name = ''] = option.types;
  const count = typeOf(name, types)?.efaInterfaces ?? 0;
  const placement = new CfnPlacementGroup(scope, 'Placement', { strategy: 'cluster' });
  const data = 'LaunchTemplateData';
  template.addPropertyDeletionOverride(`${data}.SecurityGroupIds`); // those of the interfaces
  template.addPropertyOverride(
    `${data}.NetworkInterfaces`,
    Array.from({ length: count }, (_, card) => ({
      DeviceIndex: card === 0 ? 0 : 1,
      NetworkCardIndex: card,
      InterfaceType: 'efa',
      Groups: [group.securityGroupId],
      DeleteOnTermination: true,
    })),
  );
  template.addPropertyOverride(`${data}.Placement`, { GroupName: placement.attrGroupName });
}
