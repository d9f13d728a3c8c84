import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Annotations, Match, type Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { renderUserData } from '../../infra/constructs/ec2-fleet/user-data.ts';
import example from '../../infra/examples/ec2.config.ts';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { machineToCome, resolveConfig } from '../../shared/config/index.ts';
import { MODELS } from './deployments.ts';
import { lintShell, runOnMachine } from './machine.ts';
import { openApp, productionStacks, productionTemplates, type Resource, statementsOf } from './templates.ts';

const PLANNER = { queueArn: 'arn:aws:sqs:eu-west-1:123456789012:planner.fifo' };
const RESERVED = { zones: ['eu-west-1b'], reservationId: 'cr-0123456789abcdef0' };
type Fleet = Extract<NonNullable<StatorConfig['fleets']>[string], { kind: 'ec2' }>;
/** The example, whose machines start from the default image: one of its own is subject of `machine-images.test.ts`. */
const config: StatorConfig = {
  ...example,
  models: MODELS,
  machineImages: {},
  fleets: Object.fromEntries(
    Object.entries(example.fleets ?? {}).map(([name, fleet]) => [name, { ...fleet, ami: {} }]),
  ),
};
const CHAT = config.fleets?.chat as Fleet;

/** The stack of `chat` in the example, with what differs. */
const chat = (more: Partial<Fleet> = {}, beside: StatorConfig = {}): Template =>
  productionTemplates({ ...config, ...beside, fleets: { chat: { ...CHAT, ...more } } })['Fleet-chat-a1']!;
const option = (given: Partial<Fleet['options'][number]>, more: Partial<Fleet> = {}) =>
  chat({ options: [{ types: ['g6e.12xlarge'], max: 8, ...given }], replicas: { max: 8 }, ...more });
const EVERY = {
  example: chat(),
  reserved: option({ market: 'reservation', ...RESERVED }),
  block: option({ market: 'capacity-block', ...RESERVED, types: ['p5.48xlarge'], endsAt: '2027-01-31T11:30:00Z' }),
  several: option({ types: ['g6e.12xlarge', 'g6e.24xlarge'] }),
};

const groupsOf = (template: Template) =>
  Object.values(template.findResources('AWS::AutoScaling::AutoScalingGroup')) as Resource[];
const templatesOf = (template: Template) =>
  Object.values(template.findResources('AWS::EC2::LaunchTemplate')).map(
    ({ Properties }) => Properties.LaunchTemplateData as Record<string, unknown>,
  );

describe('an Auto Scaling group of a fleet', () => {
  it.each(Object.entries(EVERY))('never changes its machines by a deployment: %s', (_name, template) => {
    for (const group of groupsOf(template)) {
      expect(Object.keys(group)).not.toContain('UpdatePolicy');
      expect(Object.keys(group.Properties)).not.toContain('DesiredCapacity');
      expect(group.Properties).toMatchObject({
        MinSize: '0',
        NewInstancesProtectedFromScaleIn: true,
        DefaultInstanceWarmup: 0,
        HealthCheckType: 'EC2',
        HealthCheckGracePeriod: 480,
        MetricsCollection: [{ Granularity: '1Minute' }],
        InstanceLifecyclePolicy: { RetentionTriggers: { TerminateHookAbandon: 'retain' } },
      });
      const tags = group.Properties.Tags as { Key: string; Value: string; PropagateAtLaunch: boolean }[];
      expect(tags).toContainEqual({ Key: 'stator:deployment', Value: 'Stator', PropagateAtLaunch: true });
    }
    template.resourceCountIs('AWS::AutoScaling::ScalingPolicy', 0);
    template.resourceCountIs('AWS::AutoScaling::ScheduledAction', 0);
  });

  it('has the name that the planner and the rights of machines know, another one for each option and generation', () => {
    const names = (template: Template) => groupsOf(template).map(({ Properties }) => Properties.AutoScalingGroupName);
    expect(names(EVERY.example)).toEqual(['Stator-chat-a1-0-on-demand', 'Stator-chat-a1-1-spot']);
    expect(names(EVERY.reserved)).toEqual(['Stator-chat-a1-0-on-demand']);
    expect(names(EVERY.block)).toEqual(['Stator-chat-a1-0-capacity-block']);
    const { generation: _, ...plain } = CHAT;
    const first = productionTemplates({ ...config, fleets: { chat: plain } })['Fleet-chat']!;
    expect(names(first)).toEqual(['Stator-chat-0-on-demand', 'Stator-chat-1-spot']);
  });

  it('buys spot by price and capacity, from several types, and replaces what is at risk', () => {
    expect(groupsOf(EVERY.example)[1]?.Properties).toMatchObject({
      CapacityRebalance: true,
      MaxSize: '8',
      MixedInstancesPolicy: {
        InstancesDistribution: {
          OnDemandBaseCapacity: 0,
          OnDemandPercentageAboveBaseCapacity: 0,
          SpotAllocationStrategy: 'price-capacity-optimized',
        },
        LaunchTemplate: { Overrides: [{ InstanceType: 'g6e.12xlarge' }, { InstanceType: 'g6e.24xlarge' }] },
      },
    });
    expect(groupsOf(EVERY.several)[0]?.Properties.MixedInstancesPolicy).toMatchObject({
      InstancesDistribution: { OnDemandAllocationStrategy: 'prioritized' },
    });
    expect(groupsOf(EVERY.example)[0]?.Properties.MixedInstancesPolicy).toBeUndefined();
  });

  it('starts machines in the zones of the option only', () => {
    const counts = groupsOf(EVERY.example).map(({ Properties }) => (Properties.VPCZoneIdentifier as unknown[]).length);
    expect(counts).toEqual([3, 2]);
    expect(groupsOf(EVERY.block)[0]?.Properties.VPCZoneIdentifier).toHaveLength(1);
  });

  it('holds machines at both ends, and hears of a dead agent within five minutes', () => {
    const hooks = Object.values(EVERY.example.findResources('AWS::AutoScaling::LifecycleHook')).map(
      ({ Properties: { AutoScalingGroupName: _, ...hook } }) => hook as unknown,
    );
    const launch = { LifecycleHookName: 'launch', LifecycleTransition: 'autoscaling:EC2_INSTANCE_LAUNCHING' };
    const terminate = { LifecycleHookName: 'terminate', LifecycleTransition: 'autoscaling:EC2_INSTANCE_TERMINATING' };
    const both = [
      { ...launch, HeartbeatTimeout: 300, DefaultResult: 'ABANDON' },
      { ...terminate, HeartbeatTimeout: 300, DefaultResult: 'CONTINUE' },
    ];
    expect(hooks).toEqual([...both, ...both]);
  });

  it('has a warm pool of as many machines as are asked for, which the hook holds, too', () => {
    const [pool, ...others] = Object.values(EVERY.example.findResources('AWS::AutoScaling::WarmPool'));
    expect(others).toEqual([]);
    expect(pool?.Properties).toMatchObject({
      MinSize: 1,
      MaxGroupPreparedCapacity: 1,
      PoolState: 'Stopped',
      InstanceReusePolicy: { ReuseOnScaleIn: true },
    });
    expect(pool?.DependsOn).toEqual([expect.stringContaining('LifecycleHookLaunch')]);
  });

  it('does not end machines for the sake of equal zones', () => {
    const calls = Object.values(EVERY.example.findResources('Custom::AWS')).map(
      ({ Properties: { Create, Update } }) => {
        expect(Update).toBe(Create);
        return JSON.parse(Create as string) as object;
      },
    );
    expect(calls).toMatchObject([
      { action: 'SuspendProcesses', parameters: { AutoScalingGroupName: 'Stator-chat-a1-0-on-demand' } },
      {
        action: 'SuspendProcesses',
        parameters: { AutoScalingGroupName: 'Stator-chat-a1-1-spot', ScalingProcesses: ['AZRebalance'] },
      },
    ]);
    const rights = statementsOf(EVERY.example, /KeepZones/);
    expect(rights.map(({ Action }) => Action)).toEqual([
      'autoscaling:SuspendProcesses',
      'autoscaling:SuspendProcesses',
    ]);
    for (const { Resource: of } of rights) expect(JSON.stringify(of)).toMatch(/autoScalingGroupName\/Stator-chat-a1-/);
  });
});

describe('a launch template of a fleet', () => {
  it.each(Object.entries(EVERY))(
    'has IMDSv2 for the machine itself, and an encrypted fast disk: %s',
    (_name, template) => {
      for (const data of templatesOf(template)) {
        expect(data.MetadataOptions).not.toHaveProperty('InstanceMetadataTags'); // nothing reads them
        expect(data).toMatchObject({
          MetadataOptions: { HttpTokens: 'required', HttpPutResponseHopLimit: 1 },
          BlockDeviceMappings: [
            {
              DeviceName: '/dev/xvda',
              Ebs: { Encrypted: true, VolumeType: 'gp3', Throughput: 1000, Iops: 4000, DeleteOnTermination: true },
            },
          ],
          ImageId: expect.stringMatching(/^resolve:ssm:\/aws\/service\/deeplearning\/ami\/x86_64\/.*\/latest\/ami-id$/),
        });
        expect(data).not.toHaveProperty('NetworkInterfaces');
        expect(data).not.toHaveProperty('KeyName');
        expect(data.SecurityGroupIds).toHaveLength(1);
        expect(JSON.stringify(data.TagSpecifications)).toContain('"ResourceType":"volume"');
      }
    },
  );

  it('has a disk for the weights where they go to the disk', () => {
    const sizes = (template: Template) =>
      templatesOf(template).map(
        ({ BlockDeviceMappings }) => (BlockDeviceMappings as { Ebs: { VolumeSize: number } }[])[0]?.Ebs.VolumeSize,
      );
    expect(sizes(EVERY.example)).toEqual([150, 150]);
    const weights = { uri: 's3://my-models/a/', bytes: 66e9, mode: 'disk' as const };
    expect(sizes(chat({ weights }))).toEqual([230, 230]); // 66 GB are 61.5 GiB
  });

  it('starts machines in the reservation only, and says that it is a block', () => {
    const target = {
      CapacityReservationSpecification: {
        CapacityReservationTarget: { CapacityReservationId: RESERVED.reservationId },
      },
    };
    expect(templatesOf(EVERY.reserved)).toMatchObject([target]);
    expect(templatesOf(EVERY.reserved)[0]).not.toHaveProperty('InstanceMarketOptions');
    expect(templatesOf(EVERY.block)).toMatchObject([
      { ...target, InstanceMarketOptions: { MarketType: 'capacity-block' }, InstanceType: 'p5.48xlarge' },
    ]);
    for (const data of templatesOf(EVERY.example)) expect(data).not.toHaveProperty('CapacityReservationSpecification');
  });

  it('has EFA on every card, and machines close to each other, only where it is asked for', () => {
    const template = option({ types: ['g6e.24xlarge'], zones: ['eu-west-1a'] }, { efa: true });
    const [data] = templatesOf(template);
    expect(data).not.toHaveProperty('SecurityGroupIds');
    expect(data?.NetworkInterfaces).toMatchObject([
      { InterfaceType: 'efa', NetworkCardIndex: 0, DeviceIndex: 0, Groups: [expect.anything()] },
      { InterfaceType: 'efa', NetworkCardIndex: 1, DeviceIndex: 1, Groups: [expect.anything()] },
    ]);
    expect(data?.Placement).toMatchObject({ GroupName: { 'Fn::GetAtt': [expect.anything(), 'GroupName'] } });
    template.hasResourceProperties('AWS::EC2::PlacementGroup', { Strategy: 'cluster' });
    const network = productionTemplates({
      ...config,
      fleets: {
        chat: {
          ...CHAT,
          efa: true,
          options: [{ types: ['g6e.24xlarge'], zones: ['eu-west-1a'], max: 8 }],
          replicas: { max: 8 },
        },
      },
    }).Data!;
    network.hasResourceProperties('AWS::EC2::SecurityGroupIngress', { IpProtocol: '-1' });
  });
});

describe('the role of the machines', () => {
  const actionsOf = (template: Template) =>
    statementsOf(template, /^WorkersRole/).flatMap(({ Action }) => [Action].flat());

  it('has the rights that the agent and the engine need, and none of EC2', () => {
    const template = chat({}, { planner: PLANNER });
    expect(actionsOf(template).sort()).toEqual([
      'autoscaling:CompleteLifecycleAction',
      'autoscaling:RecordLifecycleActionHeartbeat',
      'autoscaling:SetInstanceHealth',
      'dynamodb:BatchGetItem',
      'dynamodb:DeleteItem',
      'dynamodb:GetItem',
      'dynamodb:Query',
      'dynamodb:UpdateItem',
      'ecr:BatchCheckLayerAvailability',
      'ecr:BatchGetImage',
      'ecr:GetAuthorizationToken',
      'ecr:GetDownloadUrlForLayer',
      'logs:CreateLogStream',
      'logs:PutLogEvents',
      's3:GetObject',
      's3:ListBucket',
      's3:PutObject',
      'secretsmanager:GetSecretValue',
      'sqs:SendMessage',
    ]);
    const wide = statementsOf(template, /^WorkersRole/).filter(({ Resource: of }) => of === '*');
    expect(wide.map(({ Action }) => Action)).toEqual(['ecr:GetAuthorizationToken']);
  });

  it('reads only the folder of its weights, and stores compiled kernels only beside it', () => {
    const statements = statementsOf(EVERY.example, /^WorkersRole/).filter(({ Action }) =>
      String(Action).startsWith('s3:'),
    );
    const filesOf = (of: unknown) => JSON.stringify(of).match(/(?<=:s3:::)[^"]+/g);
    expect(statements.map(({ Action, Resource: of }) => [Action, filesOf(of)])).toEqual([
      ['s3:GetObject', ['my-models/qwen3-32b/9216db5.compile/*', 'my-models/qwen3-32b/9216db5/*']],
      ['s3:PutObject', ['my-models/qwen3-32b/9216db5.compile/*']],
      ['s3:ListBucket', ['my-models']],
    ]);
    expect(statements[2]).toMatchObject({
      Condition: { StringLike: { 's3:prefix': ['qwen3-32b/9216db5/*', 'qwen3-32b/9216db5.compile/*'] } },
    });
    expect(actionsOf(chat({ weights: undefined })).filter((action) => action.startsWith('s3:'))).toEqual([]);
  });

  it('lets operators open a shell only where it is asked for', () => {
    const policiesOf = (template: Template) =>
      JSON.stringify(
        Object.values(template.findResources('AWS::IAM::Role')).map(
          ({ Properties }) => Properties.ManagedPolicyArns ?? [],
        ),
      );
    expect(policiesOf(EVERY.example)).not.toContain('AmazonSSMManagedInstanceCore');
    expect(policiesOf(chat({ ssm: true }))).toContain('AmazonSSMManagedInstanceCore');
  });

  it('needs no right of ECR for an image from elsewhere', () => {
    const template = chat({ engine: { ...CHAT.engine, image: 'public.ecr.aws/a/worker:1' } });
    expect(actionsOf(template).filter((action) => action.startsWith('ecr:'))).toEqual([]);
  });
});

/** What takes the place of a secret's ARN, and of other names that AWS makes. */
const SECRET = 'arn:aws:secretsmanager:ap-southeast-2:123456789012:secret:StoreSecretsPlaneToken-0123456789AB-abcdef';
const MADE = 'Stator-Data-StoreDiscoveryTable8A4CD94B-1A2B3C4D5E6F7G8H9I0J';

/** The program of a template, with names in the place of what AWS makes. */
function userDataOf(data: Record<string, unknown> | undefined): string {
  const { UserData } = data as { UserData: { 'Fn::Base64': { 'Fn::Join': [string, unknown[]] } } };
  return UserData['Fn::Base64']['Fn::Join'][1]
    .map((part) => {
      if (typeof part === 'string') return part;
      const text = JSON.stringify(part);
      if (text === '{"Ref":"AWS::Region"}') return 'eu-west-1';
      return text.includes('Secrets') ? SECRET : MADE;
    })
    .join('');
}

/** Reads an environment file as systemd does: in double quotes, a backslash takes a special character as it is. */
function readEnvironment(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line !== '');
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = '', value = ''] = /^([A-Z_]+)="(.*)"$/.exec(line) ?? [];
      expect(value).not.toMatch(/(^|[^\\])(\\\\)*"/);
      return [name, value.replaceAll(/\\(["\\$`])/g, '$1')];
    }),
  );
}

const START = {
  environment: {
    A: '["a \\"b\\" $HOME `id`", "\\\\"]',
    STATOR_HOST_GROUP: 'a',
    STATOR_HOST_LAUNCH_HOOK: 'launch',
    STATOR_HOST_WORKER_IMAGE: 'registry.example/worker:1',
  },
  ecr: { registry: 'registry.example', region: 'eu-west-1' },
  region: 'eu-west-1',
  logGroup: 'logs',
  startSecs: 100,
  drainSecs: 60,
};

describe('the program that a machine starts with', () => {
  it('has less than 4 KiB, says no secret, and is a program for bash', () => {
    for (const data of templatesOf(chat({}, { planner: PLANNER }))) {
      const text = userDataOf(data);
      expect(Buffer.byteLength(text)).toBeLessThan(4096);
      expect(text).not.toMatch(/PASSWORD|SECRET_KEY|TOKEN=/);
      execFileSync('bash', ['-n'], { input: text });
    }
  });

  it.runIf(lintShell)('is as ShellCheck would have it', () => {
    for (const data of templatesOf(EVERY.example)) expect(lintShell?.(userDataOf(data))).toEqual([]);
    expect(lintShell?.('#!/bin/bash\nrm $1/*\n')).toContain('SC2086');
  });

  it('fetches and installs nothing on a machine whose image has both', () => {
    const image = START.environment.STATOR_HOST_WORKER_IMAGE;
    const { folder, calls } = runOnMachine(renderUserData(START), { images: [image], agentOf: image });
    expect(calls.filter((call) => /^(docker|dnf)/.test(call))).toEqual([`docker image inspect ${image}`]);
    expect(calls.filter((call) => call.startsWith('systemctl'))).toContain(
      'systemctl enable --now stator-host.service',
    );
    rmSync(folder, { recursive: true });
    const other = runOnMachine(renderUserData(START), { images: [image], agentOf: 'registry.example/worker:2' });
    expect(other.calls).toContain(`docker create ${image}`);
    expect(readFileSync(join(other.folder, 'opt/stator/image'), 'utf8')).toBe(`${image}\n`);
    rmSync(other.folder, { recursive: true });
  });

  it('tells the agent its group, hooks, image, weights and times, and the workers where the others are', () => {
    const text = userDataOf(
      templatesOf(chat({ environment: { DYN_TOOL_CALL_PARSER: 'hermes' } }, { planner: PLANNER }))[1],
    );
    const environment = readEnvironment(/host\.env <<'END'\n([\s\S]*?)\nEND/.exec(text)?.[1] ?? '');
    expect(environment).toMatchObject({
      AWS_REGION: 'eu-west-1',
      STATOR_HOST_GROUP: 'Stator-chat-a1-1-spot',
      STATOR_HOST_LAUNCH_HOOK: 'launch',
      STATOR_HOST_TERMINATE_HOOK: 'terminate',
      STATOR_HOST_RUNNER: 'docker',
      STATOR_HOST_WORKER_IMAGE: CHAT.engine.image,
      STATOR_HOST_GPUS_PER_REPLICA: '2',
      STATOR_HOST_WEIGHTS_URI: 's3://my-models/qwen3-32b/9216db5/',
      STATOR_HOST_WEIGHTS_BYTES: '66000000000',
      STATOR_HOST_WEIGHTS_MODE: 'stream',
      STATOR_HOST_START_SECS: '480',
      STATOR_HOST_DRAIN_SECS: '900',
      STATOR_HOST_GENERATION: 'a1',
      STATOR_HOST_MARKET: 'spot',
      STATOR_DISCOVERY_TABLE: MADE,
      STATOR_PLANE_TOKEN_SECRET: SECRET,
      STATOR_NATS_SECRET: SECRET,
      STATOR_PLANNER_QUEUE_URL: expect.stringContaining('/planner.fifo'),
      DYN_NAMESPACE_WORKER_SUFFIX: 'a1',
      DYN_TOOL_CALL_PARSER: 'hermes',
    });
    expect(JSON.parse(environment.STATOR_HOST_WORKER_ARGUMENTS ?? '')).toEqual([
      '--engine=vllm',
      '--model={weights}',
      '--served-model-name=Qwen/Qwen3-32B',
      '--tensor-parallel-size=2',
      '--load-format=runai_streamer',
      '--',
      '--max-model-len',
      '32768',
    ]);
    const { given } = resolveConfig('host', [], environment, { surroundings: machineToCome('host', environment) });
    const own = Object.keys(environment).filter((name) => /^STATOR_(HOST|EMF)/.test(name));
    const read = [...given].flatMap(([, { name }]) => (own.includes(name) ? [name] : []));
    expect(read.sort()).toEqual(own.sort());
    const refused = Object.keys(environment).filter(
      (name) => !name.startsWith('STATOR_HOST_') && name !== 'DYN_TOOL_CALL_PARSER',
    );
    for (const name of refused.filter((each) => each !== 'DYN_LOG'))
      expect(() => chat({ environment: { [name]: 'a' } }), name).toThrow(`fleets.chat.environment.${name}: `);
    const block = userDataOf(templatesOf(EVERY.block)[0]);
    expect(block).toContain('STATOR_HOST_ENDS_AT="2027-01-31T11:30:00Z"');
    expect(block).toContain('STATOR_HOST_MARKET="capacity-block"');
  });

  it('fetches the image, takes the agent out of it and starts it, and writes what systemd reads back unchanged', () => {
    const { folder, calls } = runOnMachine(renderUserData(START));
    expect(readEnvironment(readFileSync(join(folder, 'etc/stator/host.env'), 'utf8'))).toEqual({
      AWS_REGION: 'eu-west-1',
      ...START.environment,
    });
    expect(JSON.parse(readFileSync(join(folder, 'etc/stator/logs.json'), 'utf8'))).toMatchObject({
      logs: {
        logs_collected: { files: { collect_list: [{ log_group_name: 'logs', log_stream_name: '{instance_id}' }] } },
      },
    });
    const unit = readFileSync(join(folder, 'etc/systemd/system/stator-host.service'), 'utf8');
    expect(unit).toMatch(/^ExecStart=.*\/opt\/stator\/node .*\/opt\/stator\/app\/bin\/stator\.js host$/m);
    expect(unit).toContain('TimeoutStopSec=120');
    expect(
      calls
        .filter((call) => /^(docker pull|docker cp|systemctl)/.test(call))
        .map((call) => call.replaceAll(folder, '')),
    ).toEqual([
      'systemctl start docker',
      'docker pull -q registry.example/worker:1',
      'docker cp c1:/app app',
      'docker cp c1:/usr/local/bin/node node',
      'systemctl daemon-reload',
      'systemctl enable --now stator-host.service',
    ]);
    expect(calls).toContain('docker login --username AWS --password-stdin registry.example');
    rmSync(folder, { recursive: true });
  });

  it('logs in to the registry of the image in the region of that registry, which may be another one', () => {
    const image = '123456789012.dkr.ecr.us-east-1.amazonaws.com/stator-worker:1';
    const [data] = templatesOf(chat({ engine: { ...CHAT.engine, image } }));
    expect(userDataOf(data)).toContain(
      "aws ecr get-login-password --region us-east-1 | docker login --username AWS --password-stdin '123456789012.dkr.ecr.us-east-1.amazonaws.com'",
    );
  });

  it('sends heartbeats three times in the time-out of the hooks, before the agent runs and after', () => {
    const text = userDataOf(templatesOf(EVERY.example)[0]);
    expect(text).not.toContain('STATOR_HOST_HEARTBEAT_SECS');
    const { hostHeartbeatSecs: secs } = resolveConfig('host', [], {}).settings;
    expect(text).toContain(`sleep ${secs} & wait`);
    const hooks = Object.values(EVERY.example.findResources('AWS::AutoScaling::LifecycleHook'));
    for (const { Properties } of hooks) expect(Properties.HeartbeatTimeout).toBe(3 * secs);
  });

  it('refuses more variables than user data has room for', () => {
    const args = Array.from({ length: 20 }, () => `--a=${'a'.repeat(900)}`);
    expect(() => chat({ engine: { ...CHAT.engine, args } })).toThrow(
      /^fleets\.chat: environment, arguments and engine\.args make 2\d{4} bytes of user data: allowed are 14000$/,
    );
  });

  it('refuses a variable with a line break, which would be two lines', () => {
    expect(() => renderUserData({ ...START, environment: { A: 'a\nB=c' } })).toThrow(
      'A: a variable of a machine has no line break',
    );
  });
});

describe('what is odd about a fleet, and can be deployed', () => {
  const warningsOf = (more: Partial<Fleet>) => {
    const { children } = productionStacks(openApp(), { ...config, fleets: { chat: { ...CHAT, ...more } } }).node;
    return Annotations.fromStack(children.find(({ node }) => node.id === 'Fleet-chat-a1') as never);
  };

  it('is an image by tag, and a warm pool beside spot or several types', () => {
    warningsOf({}).hasNoWarning('*', Match.stringLikeRegexp('fleets'));
    warningsOf({ engine: { image: 'registry.example/worker:1' } }).hasWarning(
      '*',
      Match.stringLikeRegexp('^fleets.chat.engine.image: registry.example/worker:1: a tag'),
    );
    const spot = { types: ['g6e.12xlarge'], market: 'spot' as const, max: 8, warmPool: {} };
    warningsOf({ options: [spot], replicas: { max: 8 } }).hasWarning(
      '*',
      Match.stringLikeRegexp('^fleets.chat.options.0.warmPool: with market spot'),
    );
  });

  it('is that prefill workers have no way to pass blocks on, which ends the synthesis', () => {
    const pools = {
      ...config.fleets,
      'code-prefill': { ...(config.fleets?.['code-prefill'] as Fleet), arguments: [] },
    };
    expect(() => productionStacks(openApp(), { ...config, fleets: pools })).toThrow(
      'fleets.code-prefill: --kv-transfer-config is required for a prefill worker',
    );
  });
});

it('is known to templates with the numbers that prices and quotas follow from', () => {
  expect(groupsOf(EVERY.example).map(({ Metadata }) => Metadata?.['stator:option'])).toMatchObject([
    {
      fleet: 'chat',
      id: '0-on-demand',
      market: 'on-demand',
      min: 0,
      max: 4,
      warm: 1,
      warmState: 'Stopped',
      diskGib: 150,
    },
    {
      id: '1-spot',
      market: 'spot',
      max: 8,
      types: [{ name: 'g6e.12xlarge', vcpus: 48, quota: 'G', hourUsd: 10.49264 }, {}],
    },
  ]);
});
