import { createHash } from 'node:crypto';
import { Aws, CfnOutput, Fn, RemovalPolicy } from 'aws-cdk-lib';
import { type ISecurityGroup, type IVpc, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import { Match, Rule } from 'aws-cdk-lib/aws-events';
import { CfnInstanceProfile, type IRole, ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  CfnComponent,
  CfnDistributionConfiguration,
  CfnImagePipeline,
  CfnImageRecipe,
  CfnInfrastructureConfiguration,
  CfnLifecyclePolicy,
} from 'aws-cdk-lib/aws-imagebuilder';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { imageCostsOf, type MachineImageSettings } from '../../settings/index.ts';
import { DISK_GIB, DISK_SPEED } from '../ec2-fleet/launch-template.ts';
import type { Network } from '../network.ts';
import { DEPLOYMENT_TAG } from '../tags.ts';
import { createBuilderRole } from './builder-role.ts';
import { renderComponent } from './component.ts';
import { seedParameter } from './first-image.ts';

export interface MachineImageProps {
  /** Name of the deployment. */
  readonly deployment: string;
  /** Name of the image in the settings. */
  readonly name: string;
  readonly settings: MachineImageSettings;
  /** Images of the workers that it holds. */
  readonly workerImages: readonly string[];
  /** Parameter that names the newest image. */
  readonly parameter: string;
  readonly network: Network;
  readonly logRetentionDays: number;
}

/** Tag of the images that one pipeline has built. */
const IMAGE_TAG = 'stator:machine-image';
/** Key of the facts about an image in the template of its pipeline: `stator deploy` reads them. */
const IMAGE_FACTS = 'stator:machine-image';
/** Times at night, UTC ("Use cron expressions in Image Builder"). */
const SCHEDULES = {
  daily: 'cron(0 3 * * ? *)',
  weekly: 'cron(0 3 ? * mon *)',
  monthly: 'cron(0 3 1 * ? *)',
} as const satisfies Record<NonNullable<MachineImageSettings['rebuild']>, string>;
const TEST_MINUTES = 60;

/**
 * A pipeline of EC2 Image Builder. It makes an image for the machines of fleets that has the images of their workers
 * and the agent, so that machines start without fetching them:
 *
 *     base ──> build: pull, install ──> image ──> test: does a machine start from it? ──> parameter <── launch template
 *
 * Until the first build has succeeded, the parameter names the base, whose machines fetch the image of the workers.
 */
export class MachineImage extends Construct {
  /** Builds that fail. */
  readonly failure: Rule;

  constructor(scope: Construct, id: string, props: MachineImageProps) {
    super(scope, id);
    const { deployment, name, settings, workerImages, parameter } = props;
    const prefix = `${deployment}_${name}`; // neither has a `_`, so no name begins like that of another image
    const component = renderComponent(workerImages);
    // A name that follows from the content: neither a component nor a recipe can change under its name and version.
    const named = `${prefix}_${hashOf([component, settings.base, settings.rootDevice])}`;
    // Image Builder writes below this prefix. The id of the stack tells the log from that of a stack before, which
    // stays.
    const logGroupName = `/aws/imagebuilder/${prefix}/${Fn.select(2, Fn.split('/', Aws.STACK_ID))}`;
    new LogGroup(this, 'LogGroup', {
      logGroupName,
      retention: props.logRetentionDays,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const role = createBuilderRole(this, {
      images: workerImages,
      componentNames: `${prefix.toLowerCase()}_*`,
      logGroupName,
    });
    const pipeline = new CfnImagePipeline(this, 'Pipeline', {
      name: prefix,
      description: `Stator: ${name}, an image for machines with GPUs`,
      imageRecipeArn: createRecipe(this, named, component, props).attrArn,
      infrastructureConfigurationArn: createInfrastructure(this, prefix, role, props).attrArn,
      distributionConfigurationArn: createDistribution(this, prefix, props).attrArn,
      imageTestsConfiguration: { imageTestsEnabled: true, timeoutMinutes: TEST_MINUTES },
      imageTags: { [IMAGE_TAG]: prefix },
      enhancedImageMetadataEnabled: false, // it would list the packages of the machine by an agent of Inventory
      loggingConfiguration: { imageLogGroupName: logGroupName, pipelineLogGroupName: logGroupName },
      status: 'ENABLED',
      ...(settings.rebuild === undefined
        ? {}
        : {
            schedule: {
              scheduleExpression: SCHEDULES[settings.rebuild],
              pipelineExecutionStartCondition: 'EXPRESSION_MATCH_ONLY', // a parameter has no version to wait for
            },
          }),
    });
    pipeline.addMetadata(IMAGE_FACTS, factsOf(props));
    deleteOldImages(this, prefix, settings.keep);
    seedParameter(this, { parameter, base: settings.base, logRetentionDays: props.logRetentionDays });
    this.failure = failuresOf(this, prefix);
    new CfnOutput(this, 'BuildCommand', {
      value: `aws imagebuilder start-image-pipeline-execution --image-pipeline-arn ${pipeline.attrArn}`,
      description: `Builds the image ${name} for machines; its machines then start without fetching the workers' image`,
    });
  }
}

function createRecipe(scope: Construct, name: string, data: string, { settings }: MachineImageProps): CfnImageRecipe {
  const component = new CfnComponent(scope, 'Component', { name, version: '1.0.0', platform: 'Linux', data });
  return new CfnImageRecipe(scope, 'Recipe', {
    name,
    version: '1.0.0',
    parentImage: `ssm:${settings.base}`,
    components: [{ componentArn: component.attrArn }],
    blockDeviceMappings: [
      {
        deviceName: settings.rootDevice,
        ebs: { volumeSize: DISK_GIB, volumeType: 'gp3', encrypted: true, deleteOnTermination: true, ...DISK_SPEED },
      },
    ],
    additionalInstanceConfiguration: { systemsManagerAgent: { uninstallAfterBuild: false } },
  });
}

/** Sets where images are built: on a private machine that no one can connect to, and that ends with its build. */
function createInfrastructure(scope: Construct, name: string, role: IRole, props: MachineImageProps) {
  const { network, settings, deployment } = props;
  const profile = new CfnInstanceProfile(scope, 'Profile', { roles: [role.roleName] });
  const group = new SecurityGroup(scope, 'SecurityGroup', {
    vpc: network.vpc as IVpc,
    description: 'Machines that build images for Stator',
    allowAllOutbound: true,
  });
  const [subnetId] = network.vpc.selectSubnets(network.taskSubnets).subnetIds;
  if (subnetId === undefined) throw new Error('a network has a subnet for tasks');
  return new CfnInfrastructureConfiguration(scope, 'Infrastructure', {
    name,
    instanceTypes: [settings.instanceType],
    instanceProfileName: profile.ref,
    instanceMetadataOptions: { httpTokens: 'required', httpPutResponseHopLimit: 1 },
    subnetId,
    securityGroupIds: [(group as ISecurityGroup).securityGroupId],
    terminateInstanceOnFailure: true,
    resourceTags: { [DEPLOYMENT_TAG]: deployment },
  });
}

/** Sets where an image goes: it stays in this account and region, and the parameter names it. */
function createDistribution(scope: Construct, name: string, { deployment, parameter }: MachineImageProps) {
  return new CfnDistributionConfiguration(scope, 'Distribution', {
    name,
    distributions: [
      {
        region: Aws.REGION,
        amiDistributionConfiguration: {
          Name: `${name} {{ imagebuilder:buildDate }}`,
          AmiTags: { [DEPLOYMENT_TAG]: deployment },
        },
        ssmParameterConfigurations: [{ parameterName: parameter, dataType: 'aws:ec2:image' }],
      },
    ],
  });
}

/** Deletes all images of a pipeline but the newest ones. */
function deleteOldImages(scope: Construct, name: string, keep: number): void {
  const role = new Role(scope, 'CleanerRole', {
    assumedBy: new ServicePrincipal('imagebuilder.amazonaws.com'),
    description: 'Stator: deletes old images for machines',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName('service-role/EC2ImageBuilderLifecycleExecutionPolicy')],
  });
  new CfnLifecyclePolicy(scope, 'Keep', {
    name,
    resourceType: 'AMI_IMAGE',
    executionRole: role.roleArn,
    resourceSelection: { tagMap: { [IMAGE_TAG]: name } },
    policyDetails: [
      {
        action: { type: 'DELETE', includeResources: { amis: true, snapshots: true } },
        filter: { type: 'COUNT', value: keep },
      },
    ],
    status: 'ENABLED',
  });
}

/** Adds a rule for builds that fail. EventBridge counts how often it matches, which an alarm watches. */
function failuresOf(scope: Construct, name: string): Rule {
  return new Rule(scope, 'Failure', {
    description: 'Stator: builds of an image for machines that fail',
    eventPattern: {
      source: ['aws.imagebuilder'],
      detailType: ['EC2 Image Builder Image State Change'],
      resources: Match.wildcard(`*:image/${name.toLowerCase()}_*`),
      detail: { state: { status: ['FAILED'] } },
    },
  });
}

/** Facts that the price of an image follows from. */
function factsOf({ name, settings, workerImages }: MachineImageProps): object {
  const { rebuild, keep } = settings;
  return { name, keep, ...imageCostsOf(settings, workerImages.length), ...(rebuild === undefined ? {} : { rebuild }) };
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}
