import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { renderComponent } from '../../infra/constructs/machine-image/component.ts';
import example from '../../infra/examples/ec2.config.ts';
import { readSettings, type StatorConfig } from '../../infra/settings/index.ts';
import { MODELS } from './deployments.ts';
import { lintShell, parseShell, runOnMachine } from './machine.ts';
import { openApp, productionStacks, productionTemplates, type Resource, statementsOf } from './templates.ts';

type Fleet = Extract<NonNullable<StatorConfig['fleets']>[string], { kind: 'ec2' }>;
const CHAT = example.fleets?.chat as Fleet;
const { image: IMAGE } = CHAT.engine;
const DLAMI = '/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id';

/** Templates of the example, with what differs. */
const templates = (more: StatorConfig = {}) => productionTemplates({ ...example, models: MODELS, ...more });
const AMI = templates().Ami!;
const only = (template: Template, type: string): Resource => {
  const found = Object.values(template.findResources(type)) as Resource[];
  expect(found).toHaveLength(1);
  return found[0]!;
};

interface Document {
  readonly schemaVersion: string;
  readonly phases: readonly {
    readonly name: string;
    readonly steps: readonly { readonly action: string; readonly inputs: { readonly commands: readonly string[] } }[];
  }[];
}

/** Returns the program of a phase of a component. */
function programOf(document: string, phase: string): string {
  const { phases } = JSON.parse(document) as Document;
  const steps = phases.find(({ name }) => name === phase)?.steps ?? [];
  expect(steps.map(({ action }) => action)).toEqual(['ExecuteBash']);
  return steps.flatMap(({ inputs }) => inputs.commands).join('\n');
}

describe('the pipeline of an image for machines', () => {
  it('begins with the newest base, on an encrypted disk that is no larger than those of machines', () => {
    const { Properties } = only(AMI, 'AWS::ImageBuilder::ImageRecipe');
    expect(Properties).toMatchObject({
      ParentImage: `ssm:${DLAMI}`,
      BlockDeviceMappings: [
        { DeviceName: '/dev/xvda', Ebs: { Encrypted: true, VolumeSize: 150, DeleteOnTermination: true } },
      ],
    });
    const disks = Object.values(templates()['Fleet-chat-a1']!.findResources('AWS::EC2::LaunchTemplate')).flatMap(
      ({ Properties: { LaunchTemplateData: data } }) => (data as { BlockDeviceMappings: object[] }).BlockDeviceMappings,
    );
    for (const disk of disks) expect(disk).toMatchObject({ DeviceName: '/dev/xvda', Ebs: { VolumeSize: 150 } });
  });

  it('builds on a private machine with IMDSv2 that no one can connect to, and that ends with a failed build', () => {
    const { Properties } = only(AMI, 'AWS::ImageBuilder::InfrastructureConfiguration');
    expect(Properties).toMatchObject({
      InstanceTypes: ['m6i.xlarge'],
      InstanceMetadataOptions: { HttpTokens: 'required', HttpPutResponseHopLimit: 1 },
      TerminateInstanceOnFailure: true,
    });
    expect(JSON.stringify(Properties.SubnetId)).toContain('PrivateSubnet');
    expect(Properties).not.toHaveProperty('KeyPair');
    expect(only(AMI, 'AWS::EC2::SecurityGroup').Properties).not.toHaveProperty('SecurityGroupIngress');
    AMI.resourceCountIs('AWS::EC2::SecurityGroupIngress', 0);
  });

  it('tests each image on a machine that starts from it, and then has the parameter of the fleets name it', () => {
    expect(only(AMI, 'AWS::ImageBuilder::ImagePipeline').Properties).toMatchObject({
      ImageTestsConfiguration: { ImageTestsEnabled: true },
      Status: 'ENABLED',
    });
    const parameter = '/imagebuilder/Stator/gpu';
    expect(only(AMI, 'AWS::ImageBuilder::DistributionConfiguration').Properties).toMatchObject({
      Distributions: [
        {
          Region: { Ref: 'AWS::Region' },
          SsmParameterConfigurations: [{ ParameterName: parameter, DataType: 'aws:ec2:image' }],
        },
      ],
    });
    for (const [name, template] of Object.entries(templates())) {
      const images = Object.values(template.findResources('AWS::EC2::LaunchTemplate')).map(
        ({ Properties: { LaunchTemplateData: data } }) => (data as { ImageId: unknown }).ImageId,
      );
      expect(images.every((image) => image === `resolve:ssm:${parameter}`)).toBe(true);
      expect(images.length > 0).toBe(name.startsWith('Fleet-'));
    }
  });

  it('has the parameter name the base until then, and never sets it again', () => {
    const { Properties } = only(AMI, 'Custom::AWS');
    expect(JSON.stringify(Properties.Create)).toMatch(/PutParameter.*imagebuilder\/Stator\/gpu.*Overwrite\\+":false/);
    expect(Properties).not.toHaveProperty('Update');
    expect(JSON.stringify(Properties.Delete)).toContain('DeleteParameter');
  });

  it('builds again by schedule only if the settings say so', () => {
    const { Schedule } = only(AMI, 'AWS::ImageBuilder::ImagePipeline').Properties;
    expect(Schedule).toMatchObject({
      ScheduleExpression: 'cron(0 3 1 * ? *)',
      PipelineExecutionStartCondition: 'EXPRESSION_MATCH_ONLY',
    });
    const plain = templates({ machineImages: { gpu: {} } }).Ami!;
    expect(only(plain, 'AWS::ImageBuilder::ImagePipeline').Properties).not.toHaveProperty('Schedule');
  });

  it('keeps the newest images that it has built, and deletes the others with their snapshots', () => {
    const { Properties } = only(AMI, 'AWS::ImageBuilder::LifecyclePolicy');
    expect(Properties).toMatchObject({
      PolicyDetails: [
        {
          Action: { Type: 'DELETE', IncludeResources: { Amis: true, Snapshots: true } },
          Filter: { Type: 'COUNT', Value: 3 },
        },
      ],
    });
    const { TagMap } = Properties.ResourceSelection as { TagMap: object };
    expect(only(AMI, 'AWS::ImageBuilder::ImagePipeline').Properties.ImageTags).toEqual(TagMap);
  });

  it('gets another recipe with another image of workers or another base, since recipes cannot change', () => {
    const nameOf = (more: StatorConfig) => {
      const template = templates(more).Ami!;
      const recipe = only(template, 'AWS::ImageBuilder::ImageRecipe').Properties.Name;
      expect(only(template, 'AWS::ImageBuilder::Component').Properties.Name).toBe(recipe);
      return recipe;
    };
    const other = `${IMAGE.slice(0, -1)}1`;
    const fleets = { chat: { ...CHAT, engine: { ...CHAT.engine, image: other } } };
    const names = [{}, { fleets }, { machineImages: { gpu: { base: '/my/base' } } }].map(nameOf);
    expect(new Set(names).size).toBe(3);
    expect(nameOf({ machineImages: { gpu: { keep: 9 } } })).toBe(names[0]);
  });

  it('comes before the fleets, and is not there where no fleet asks for it', () => {
    const { children } = productionStacks(openApp(), example).node;
    const fleet = children.find(({ node }) => node.id === 'Fleet-chat-a1') as Stack;
    expect(fleet.dependencies.map(({ node }) => node.id)).toContain('Ami');
    const { ami: _, ...plain } = CHAT;
    const without = productionTemplates({ ...example, models: MODELS, machineImages: {}, fleets: { chat: plain } });
    expect(Object.keys(without)).toEqual(['Data', 'Planner', 'Edge', 'Fleet-chat-a1']);
    const [data] = Object.values(without['Fleet-chat-a1']!.findResources('AWS::EC2::LaunchTemplate'));
    expect(JSON.stringify(data)).toContain(`resolve:ssm:${DLAMI}`);
  });

  it('fills the disks of machines at the speed that the settings name', () => {
    const fast = templates({ machineImages: { gpu: { initializationMibs: 300 } } })['Fleet-chat-a1']!;
    const dataOf = (template: Template) =>
      Object.values(template.findResources('AWS::EC2::LaunchTemplate')).map((each) => JSON.stringify(each));
    for (const text of dataOf(fast)) expect(text).toContain('"VolumeInitializationRate":300');
    for (const text of dataOf(templates()['Fleet-chat-a1']!)) expect(text).not.toContain('VolumeInitializationRate');
  });
});

describe('the role of the machines that build', () => {
  it('may be driven by Systems Manager, read its component and the image of the workers, and write its log', () => {
    const statements = statementsOf(AMI, /BuilderRole/);
    expect(statements.flatMap(({ Action }) => [Action].flat()).sort()).toEqual([
      'ecr:BatchCheckLayerAvailability',
      'ecr:BatchGetImage',
      'ecr:GetAuthorizationToken',
      'ecr:GetDownloadUrlForLayer',
      'imagebuilder:GetComponent',
      'logs:CreateLogStream',
      'logs:PutLogEvents',
      's3:GetObject',
    ]);
    const wide = statements.filter(({ Resource: of }) => of === '*');
    expect(wide.map(({ Action }) => Action)).toEqual(['ecr:GetAuthorizationToken']);
    const [role] = Object.entries(AMI.findResources('AWS::IAM::Role')).filter(([id]) => id.includes('BuilderRole'));
    expect(JSON.stringify(role?.[1].Properties.ManagedPolicyArns)).toMatch(/AmazonSSMManagedInstanceCore"\]+\}\]$/);
  });

  it('reads only the component of its own pipeline, whatever other pipelines are called', () => {
    const [right] = statementsOf(AMI, /BuilderRole/).filter(({ Action }) => Action === 'imagebuilder:GetComponent');
    expect(JSON.stringify(right?.Resource)).toContain(':component/stator_gpu_*/*');
    const { Name } = only(AMI, 'AWS::ImageBuilder::Component').Properties;
    expect(String(Name).toLowerCase()).toMatch(/^stator_gpu_[0-9a-f]{12}$/);
  });

  it('has no right of ECR for images from elsewhere', () => {
    const image = `public.ecr.aws/a/worker@sha256:${'0'.repeat(64)}`;
    const template = templates({ fleets: { chat: { ...CHAT, engine: { ...CHAT.engine, image } } } }).Ami!;
    const actions = statementsOf(template, /BuilderRole/).flatMap(({ Action }) => [Action].flat());
    expect(actions.filter((action) => action.startsWith('ecr:'))).toEqual([]);
  });
});

describe('the component of an image', () => {
  const two = [IMAGE, 'registry.example/it-s/worker@sha256:1'];
  const document = renderComponent(two);

  it('is in the template, small enough for Image Builder, and JSON without what Image Builder would replace', () => {
    const { Data } = only(AMI, 'AWS::ImageBuilder::Component').Properties;
    expect(Data).toBe(renderComponent([IMAGE]));
    expect(Buffer.byteLength(document)).toBeLessThan(16_000);
    expect(document).not.toContain('{{');
    expect((JSON.parse(document) as Document).schemaVersion).toBe('1.0');
  });

  it.each(['build', 'test'])('is a program for bash in phase %s, as ShellCheck would have it', (phase) => {
    const program = programOf(document, phase);
    parseShell(program);
    expect(lintShell?.(`#!/bin/bash\n${program}`) ?? []).toEqual([]);
  });

  it('pulls every image, takes the agent out of one, and keeps no password of a registry', () => {
    const { folder, calls, status } = runOnMachine(programOf(document, 'build'));
    expect(status).toBe(0);
    expect(calls.filter((call) => call.startsWith('docker pull'))).toEqual(
      two.map((image) => `docker pull -q ${image}`),
    );
    expect(calls).toContain(
      'docker login --username AWS --password-stdin 123456789012.dkr.ecr.eu-west-1.amazonaws.com',
    );
    expect(calls.at(-1)).toBe('dnf -q -y install amazon-cloudwatch-agent');
    expect(readFileSync(join(folder, 'opt/stator/image'), 'utf8')).toBe(`${two[1]}\n`);
    expect(() => readFileSync(join(folder, 'root/.docker/config.json'))).toThrow('ENOENT');
    rmSync(folder, { recursive: true });
  });

  it('fails the build if an image cannot be pulled, with no password left', () => {
    const { folder, calls, status } = runOnMachine(programOf(document, 'build'), { isOffline: true });
    expect(status).toBe(1);
    expect(calls.filter((call) => call.startsWith('docker pull'))).toHaveLength(4);
    expect(calls.some((call) => call.startsWith('dnf'))).toBe(false);
    expect(() => readFileSync(join(folder, 'root/.docker/config.json'))).toThrow('ENOENT');
    rmSync(folder, { recursive: true });
  });

  it('leaves a machine that starts from it nothing to fetch, and its test notices an image that lacks one', () => {
    const check = programOf(document, 'test').replaceAll('/opt/stator/node', 'node-of-the-agent');
    const run = (images: readonly string[]) => {
      const { folder, status } = runOnMachine(`node-of-the-agent() { true; }\n${check}`, { images });
      rmSync(folder, { recursive: true });
      return status;
    };
    expect([run(two), run([IMAGE])]).toEqual([0, 1]);
  });
});

describe('settings of images for machines', () => {
  const reading = (more: StatorConfig) => () => readSettings({ ...example, models: MODELS, ...more }, 'file');
  const chat = (more: Partial<Fleet>): StatorConfig => ({ fleets: { chat: { ...CHAT, ...more } } });
  const byTag = { ...CHAT.engine, image: 'registry.example/worker:1' };
  const imageOf = (digit: number) => ({ ...CHAT.engine, image: `${IMAGE.slice(0, -1)}${digit}` });

  it.each<[StatorConfig, string]>([
    [
      chat({ ami: { machineImage: 'gpus' } }),
      'fleets.chat.ami.machineImage: gpus: names no entry of machineImages; known are gpu',
    ],
    [
      chat({ ami: {} }),
      'machineImages.gpu: no fleet starts from it: set fleets.NAME.ami.machineImage to gpu, or remove it',
    ],
    [chat({ engine: byTag }), 'fleets.chat.engine.image: registry.example/worker:1: ami.machineImage needs a digest'],
    [
      chat({ ami: { machineImage: 'gpu', parameter: '/a' } }),
      'fleets.chat.ami.parameter: /a: machineImages.gpu has its own',
    ],
    [
      chat({ ami: { machineImage: 'gpu', rootDevice: '/dev/sda1' } }),
      'fleets.chat.ami.rootDevice: /dev/sda1: machineImages.gpu',
    ],
    [
      { machineImages: { gpu: { instanceType: 'm7g.xlarge' } } },
      'machineImages.gpu.instanceType: m7g.xlarge: has arm64 processors, and base names an image for x86_64',
    ],
    [
      { machineImages: { gpu: { base: '/my/arm64/base' } } },
      'machineImages.gpu.instanceType: m6i.xlarge: has x86_64 processors, and base names an image for arm64',
    ],
    [
      {
        fleets: Object.fromEntries(
          [1, 2, 3].map((at) => [`a${at}`, { ...CHAT, generation: `a${at}`, engine: imageOf(at) }]),
        ),
      },
      'machineImages.gpu: its fleets have 3 different engine.image: its disk has room for 2',
    ],
    [{ machineImages: { gpu: {}, GPU: {} } }, 'machineImages.GPU: Image Builder cannot tell it from machineImages.gpu'],
    [{ name: `a${'b'.repeat(60)}`, machineImages: { [`gpu${'u'.repeat(50)}`]: {} } }, 'characters: allowed are 100'],
    [{ machineImages: { gpu: { keep: 0 } } }, 'machineImages.gpu.keep: 0: allowed are 1 to 20'],
    [
      { machineImages: { gpu: { rebuild: 'hourly' as 'daily' } } },
      'machineImages.gpu.rebuild: "hourly": allowed are "daily"|"weekly"|"monthly"',
    ],
    [
      { machineImages: { gpu: { initializationMibs: 500 } } },
      'machineImages.gpu.initializationMibs: 500: allowed are 100 to 300',
    ],
    [
      { machineImages: { gpu: { base: 'ami-1' } } },
      'machineImages.gpu.base: must be the name of a parameter of Systems Manager',
    ],
  ])('are refused if they cannot work: %#', (given, message) => {
    expect(reading(given)).toThrow(message);
  });
});
