import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig, readSettings } from '../../infra/settings/index.ts';
import { readPages } from '../support/docs/blocks.ts';

const reading = (given: unknown) => readSettings(given, 'my.config.ts');

const VPC = {
  id: 'vpc-0123456789abcdef0',
  availabilityZones: ['a', 'b', 'c'],
  privateSubnetIds: ['subnet-1', 'subnet-2', 'subnet-3'],
};
const DOMAIN = {
  name: 'llm.example.com',
  containerName: 'edge.example.com',
  certificateArn: 'arn:aws:acm:eu-west-1:123456789012:certificate/a',
};

const MOCK = { kind: 'mock', model: 'stator-mini' };
const ofFleets = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, MOCK]));
const ofModels = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${at}`, {}]));

describe('readSettings', () => {
  it('has a default for each', () => {
    expect(reading({})).toMatchObject({
      name: 'Stator',
      sizes: { dev: { cpu: 512, memoryMiB: 1024 } },
      nats: { servers: 3 },
      limits: { requestsPerSecond: 100 },
      retain: true,
    });
  });

  it('takes what is as long and as much as it may be', () => {
    const models = { ...ofModels(49), 'stator-mini': {}, 模型: { wanted: false } };
    const fleets = { ['f'.repeat(40)]: { ...MOCK, generation: 'g'.repeat(16) }, ...ofFleets(63) };
    const read = reading({ name: 'N'.repeat(64), models, fleets });
    expect(Object.keys(read.fleets)).toHaveLength(64);
    expect(Object.values(read.models).filter(({ wanted }) => wanted)).toHaveLength(50);
  });

  it.each([
    [{ limit: {} }, 'my.config.ts: limit: unknown key; did you mean limits?'],
    [{ edges: { container: { task: 3 } } }, 'my.config.ts: edges.container.task: unknown key; did you mean tasks?'],
    [
      { fleets: { a: { kind: 'mock', model: 'stator-mini', worker: 2 } } },
      'my.config.ts: fleets.a.worker: unknown key; did you mean workers?',
    ],
    [{ network: { vpc: { zzzzzz: 1 } } }, /network\.vpc\.zzzzzz: unknown key; known are id, availabilityZones/],
    [
      { fleets: { a: { kind: 'mock', model: 'stator-mimi' } } },
      'my.config.ts: fleets.a.model: names no model of models; did you mean "stator-mini"?',
    ],
    [
      {
        fleets: {
          a: { kind: 'mock', model: 'stator-mini', pool: 'prefill' },
          b: { kind: 'mock', model: 'stator-mini' },
        },
      },
      /fleets\.a\.pool: prefill needs another fleet of the model with pool: decode/,
    ],
    [
      {
        fleets: {
          a: { kind: 'mock', model: 'stator-mini', pool: 'prefill' },
          b: { kind: 'mock', model: 'stator-mini', pool: 'decode', generation: 'b1' },
        },
      },
      'my.config.ts: fleets.a.pool: prefill needs another fleet of the model with pool: decode, of the same kind and generation',
    ],
    [
      { fleets: { a: { kind: 'mock', model: 'stator-mini', pool: 'both' } } },
      /fleets\.a\.pool: .*"agg"\|"prefill"\|"decode"/,
    ],
    [{ sizes: { edge: { cpu: 256, memoryMiB: 8192 } } }, /sizes\.edge\.memoryMiB: Fargate sells 512 to 2048 MiB/],
    [{ edges: { container: { listener: 'public' } } }, /edges\.container\.listener: public needs domain/],
    [{ edges: { container: { grpc: true } } }, /edges\.container\.grpc: needs listener: public/],
    [
      { network: { zones: 2, natGateways: 3 }, nats: { servers: 1 } },
      'network.natGateways: must be at most the number of zones (2)',
    ],
    [{ encryption: { keyArn: 'alias/mine' } }, /encryption\.keyArn: must be the ARN of a key, as arn:aws:kms:/],
    [
      { encryption: { keyArn: 'arn:aws:kms:eu-west-1:123456789012:alias/mine' } },
      /encryption\.keyArn: must be the ARN of a key/,
    ],
    [{ network: { zones: 2 } }, /network\.zones: nats\.servers: 3 needs three zones/],
    [
      { network: { availabilityZones: ['use1-az1', 'us-east-1b'] } },
      /network\.availabilityZones\.0: must be the name of a zone/,
    ],
    [
      { network: { availabilityZones: ['eu-west-1a', 'eu-west-1a'] } },
      /network\.availabilityZones: must name each zone once/,
    ],
    [
      { network: { availabilityZones: ['eu-west-1a', 'eu-west-1b'] } },
      /network\.availabilityZones: nats\.servers: 3 needs three zones/,
    ],
    [
      { network: { availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'], vpc: VPC } },
      /network\.availabilityZones: is only for a VPC that the deployment creates/,
    ],
    [
      { domain: { ...DOMAIN, containerName: 'edge.example.org', hostedZone: { id: 'Z1', name: 'example.com.' } } },
      'domain.containerName: edge.example.org lies outside the hosted zone example.com',
    ],
    [
      { planner: { queueArn: 'arn:aws:sqs:eu-west-1:123456789012:planner' } },
      /planner\.queueArn: must be the ARN of a FIFO queue of SQS/,
    ],
    [
      { planner: { endpoint: true } },
      /planner\.endpoint: needs planner\.queueArn.*; planner\.endpoint: needs network\.vpc/,
    ],
    [{ network: { vpc: VPC, flowLogs: true } }, /network\.flowLogs: is only for a VPC that the deployment creates/],
    [{ alarms: { topicArn: 'arn:aws:sns:...' } }, /alarms\.topicArn: must be an ARN, as arn:aws:SERVICE:REGION/],
    [
      { network: { vpc: { ...VPC, availabilityZones: ['a', 'b'], privateSubnetIds: ['subnet-1', 'subnet-2'] } } },
      /network\.vpc\.availabilityZones: nats\.servers: 3 needs three zones/,
    ],
    [
      { network: { vpc: { ...VPC, privateSubnetIds: ['subnet-1'] } } },
      /network\.vpc\.privateSubnetIds: must name one subnet for each of availabilityZones \(3\)/,
    ],
    [
      { network: { vpc: VPC }, edges: { container: { listener: 'public' } }, domain: DOMAIN },
      /network\.vpc\.publicSubnetIds: must name one subnet for each of availabilityZones \(3\) for the load balancer/,
    ],
    [{ limits: { holdSecs: 871 } }, 'my.config.ts: limits.holdSecs: 871: allowed are 0 to 870'],
    [{ limits: { holdSecs: -1 } }, 'my.config.ts: limits.holdSecs: -1: allowed are 0 to 870'],
    [
      { limits: { maxTokensFunction: -1 } },
      'my.config.ts: limits.maxTokensFunction: -1: allowed are whole numbers from 0 to 4294967295',
    ],
    [
      { limits: { maxTokensFunction: 1.5 } },
      'my.config.ts: limits.maxTokensFunction: 1.5: allowed are whole numbers from 0 to 4294967295',
    ],
    [
      { limits: { maxTokensFunction: 'many' } },
      'my.config.ts: limits.maxTokensFunction: "many": allowed are whole numbers from 0 to 4294967295',
    ],
    [{ name: '1 bad name' }, /name: must start with a letter/],
    [{ name: '1 bad name' }, /; it is "1 bad name"$/],
    [{ edges: { function: { memoryMb: 'many' } } }, 'edges.function.memoryMb: "many": must be a number'],
    [{ edges: { function: { memoryMb: 1 } } }, 'edges.function.memoryMb: 1: allowed are 256 to 10240'],
    [{ edges: { container: { tasks: 1.5 } } }, 'edges.container.tasks: 1.5: must be a whole number'],
    [{ edges: { container: { tasks: 9 } } }, 'edges.container.tasksMax: 8: must be at least tasks (9)'],
    [
      { edges: { container: { listener: 'publik' } } },
      'edges.container.listener: "publik": allowed are "none"|"internal"|"public"',
    ],
    [{ edges: { function: { environment: { DYN_LOG: null } } } }, /DYN_LOG: must be a text.*; it is null$/],
    [{ logRetentionDays: 31 }, 'logRetentionDays: 31: allowed are 1|3|5|7|14|30|60|90|180|365'],
    [{ nats: { servers: 2 } }, 'nats.servers: 2: allowed are 1|3'],
    [{ sizes: { edge: { cpu: 300 } } }, 'sizes.edge.cpu: 300: allowed are 256|512|1024|2048|4096'],
    [{ sizes: { edge: { cpu: 256, memoryMiB: 8192 } } }, /in steps of 1024; it is 8192$/],
    [{ retain: 'no' }, 'retain: "no": must be true or false'],
    [{ alarms: { ttftP99Secs: 0 } }, 'alarms.ttftP99Secs: 0: must be more than 0'],
    [{ alarms: { topicArn: 'oncall' } }, /alarms\.topicArn: must be an ARN, .*; it is "oncall"$/],
    [{ alarms: { topicArn: 'a'.repeat(200) } }, /; it is "a{59}\.\.\.$/],
    [{ domain: { name: 'a.example.com' } }, 'domain.certificateArn: is missing: must be a text'],
    [{ network: { vpc: { ...VPC, privateSubnetIds: [] } } }, 'privateSubnetIds: must have at least 1 entry'],
    [{ fleets: { a: { model: 'stator-mini' } } }, 'fleets.a.kind: is missing: allowed are "mock"|"ec2"'],
    [{ fleets: { a: { kind: 'mock', model: '' } } }, 'fleets.a.model: "": must have at least 1 character'],
    [
      { fleets: { a: { kind: 'mock', model: 'qwen' } } },
      'fleets.a.model: names no model of models; it is "qwen", known are stator-mini',
    ],
    [{ fleets: { 'a b': { kind: 'mock', model: 'stator-mini' } } }, 'fleets.a b: must start with a letter'],
    [5, 'the file: 5: must be an object'],
    [[], 'the file: a list: must be an object'],
    [
      { name: 'N'.repeat(64), fleets: { ['f'.repeat(58)]: MOCK } },
      /fleets\.f{58}: its stack would be N{64}-Fleet-f{58}, which has 129 characters: allowed are 128$/,
    ],
    [
      { fleets: { 'a-b': MOCK, a: { ...MOCK, generation: 'b' } } },
      'my.config.ts: fleets.a: its stack would be Stator-Fleet-a-b, as that of fleets.a-b is',
    ],
    [
      { models: { ...ofModels(50), 'stator-mini': {} } },
      'my.config.ts: models: 51 have wanted: true, as all have that do not say otherwise: allowed are 50',
    ],
    [
      { models: { 'stator-mini': {}, 模型: {} } },
      'my.config.ts: models.模型.wanted: allowed is false: an alarm finds a model by a name in ASCII',
    ],
    [{ models: { 'stator-mini': {}, ':a': {} } }, /^my\.config\.ts: models\.:a\.wanted: allowed is false/],
  ])('refuses %j', (given, message) => {
    expect(() => reading(given)).toThrow(message);
  });
});

describe('loadConfig', () => {
  it('reads the file that the page of deployment shows, whole as it is there', async () => {
    const { blocks } = readPages(process.cwd()).find(({ file }) => file === 'docs/deploy.md')!;
    const shown = blocks.filter(({ language }) => language === 'ts');
    expect(shown).toHaveLength(1);
    const path = join(mkdtempSync(join(tmpdir(), 'stator-config-')), 'stator.config.ts');
    writeFileSync(path, shown[0]!.text);
    expect(await loadConfig(path)).toMatchObject({ domain: { name: 'llm.example.com' } });
    rmSync(dirname(path), { recursive: true });
  });

  it('reads what the repository deploys', async () => {
    expect(await loadConfig()).toMatchObject({ fleets: { mock: { model: 'stator-mini', workers: 2 } } });
  });

  it('reads another file, and says when there is none', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-config-'));
    const path = join(folder, 'mine.ts');
    writeFileSync(path, 'const name: string = "Mine";\nexport default { name };\n');
    expect((await loadConfig(path)).name).toBe('Mine');
    await expect(loadConfig(join(folder, 'none.ts'))).rejects.toThrow(/no such file; -c config=PATH/);
    writeFileSync(path, 'export default {\n  fleets: { ;\n};\n');
    await expect(loadConfig(path)).rejects.toThrow(/mine\.ts: Expected .* on line 2: fleets: \{ ;$/);
    rmSync(folder, { recursive: true });
  });
});
