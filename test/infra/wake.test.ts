import { Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { HELD_RECORDS } from '../../infra/constructs/planner/wake.ts';
import { holdSecsOf, readSettings, type StatorConfig } from '../../infra/settings/index.ts';
import { faultOfVariable, rowOfVariable } from '../../shared/config/index.ts';
import { matches } from '../support/aws/table-stream.ts';
import { GPUS, MODELS } from './deployments.ts';
import { devTemplate, productionTemplates, type Resource, statementsOf } from './templates.ts';

const { Planner: planner, Edge: edge } = productionTemplates(GPUS);
const wake = (Object.entries(planner!.findResources('AWS::Lambda::Function')) as [string, Resource][]).find(([id]) =>
  id.startsWith('Wake'),
)![1];
const variablesOf = ({ Properties }: Resource) =>
  (Properties.Environment as { readonly Variables: Readonly<Record<string, unknown>> }).Variables;
const rightsOf = (template: typeof planner, role: RegExp) =>
  statementsOf(template!, role).flatMap(({ Action, ...more }) =>
    [Action].flat().map((action) => ({ action, ...more })),
  );

describe('what tells the planner of held requests', () => {
  it('takes the keys that are written to the table, collected for a second and tried for a minute', () => {
    planner!.hasResourceProperties('AWS::DynamoDB::Table', { StreamSpecification: { StreamViewType: 'KEYS_ONLY' } });
    planner!.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      EventSourceArn: Match.objectLike({ 'Fn::GetAtt': Match.arrayWith(['StreamArn']) }),
      StartingPosition: 'LATEST',
      MaximumBatchingWindowInSeconds: 1,
      MaximumRecordAgeInSeconds: 60,
      MaximumRetryAttempts: 3,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      FilterCriteria: { Filters: [{ Pattern: JSON.stringify(HELD_RECORDS) }] },
    });
  });

  it('may run for each shard at the same time: a new table that is paid by use has four partitions', () => {
    expect(wake.Properties.ReservedConcurrentExecutions).toBe(4);
  });

  it.each([
    ['INSERT', 'HELD#dynamo#m', true],
    ['MODIFY', 'HELD#dynamo#m', true],
    ['REMOVE', 'HELD#dynamo#m', false],
    ['MODIFY', 'PLAN#dynamo#m', false],
  ])('gets of %s of %s: %s', (eventName, pk, isTaken) => {
    const record = { eventName, dynamodb: { Keys: { pk: { S: pk }, sk: { S: 'ENV#1' } } } };
    expect(matches(record, HELD_RECORDS)).toBe(isTaken);
  });

  it('sets batches aside that it could not tell, with what else did not reach the queue', () => {
    const Destination = { 'Fn::GetAtt': [Match.stringLikeRegexp('^EventsUndelivered'), 'Arn'] };
    planner!.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      DestinationConfig: { OnFailure: { Destination } },
    });
  });

  it('gets only variables that it reads, and ends before a record is too old', () => {
    expect(Object.keys(variablesOf(wake)).sort()).toEqual([
      'DYN_LOG',
      'DYN_LOGGING_JSONL',
      'DYN_REQUEST_PLANE',
      'STATOR_PLANNER_QUEUE_URL',
      'STATOR_PLANNER_TABLE',
    ]);
    for (const [name, value] of Object.entries(variablesOf(wake))) {
      expect(rowOfVariable('planner', name), name).toBeDefined();
      const text = typeof value === 'string' ? value : 'https://made.by/cloudformation';
      expect(faultOfVariable('planner', name, text)).toBeUndefined();
    }
    expect(wake.Properties).toMatchObject({ Timeout: 10, Runtime: 'nodejs22.x', Architectures: ['arm64'] });
  });

  it('may read the notes and the stream and send, and nothing else', () => {
    const rights = rightsOf(planner, /^WakeRole/);
    expect(rights.map(({ action }) => action).sort()).toEqual([
      'dynamodb:DescribeStream',
      'dynamodb:GetRecords',
      'dynamodb:GetShardIterator',
      'dynamodb:ListStreams',
      'dynamodb:Query',
      'logs:CreateLogStream',
      'logs:PutLogEvents',
      'sqs:SendMessage',
    ]);
    const held = { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['HELD#*'] } };
    expect(rights.find(({ action }) => action === 'dynamodb:Query')).toMatchObject({ Condition: held });
    const wide = rights.filter(({ Resource }) => JSON.stringify(Resource) === '"*"');
    expect(wide.map(({ action }) => action)).toEqual(['dynamodb:ListStreams']);
  });

  it('reads what the HTTP function notes, which may write and remove notes, and do nothing else with that table', () => {
    const front = (Object.entries(edge!.findResources('AWS::Lambda::Function')) as [string, Resource][]).find(([id]) =>
      id.startsWith('FrontHttp'),
    )![1];
    expect(variablesOf(front)).toHaveProperty('STATOR_PLANNER_TABLE');
    const held = { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['HELD#*'] } };
    const rights = rightsOf(edge, /^FrontHttpRole/).filter((right) => 'Condition' in right);
    expect(rights.map(({ action }) => action).sort()).toEqual(['dynamodb:DeleteItem', 'dynamodb:PutItem']);
    for (const right of rights) expect(right).toMatchObject({ Condition: held });
  });

  it.each([
    ['a planner', {}],
    ['requests that wait', { ...GPUS, limits: { ...GPUS.limits, holdSecs: 0 } }],
  ])('has no table for the HTTP function without %s', (_what, given) => {
    const without = productionTemplates(given).Edge!;
    expect(JSON.stringify(without.toJSON())).not.toContain('STATOR_PLANNER_TABLE');
    expect(JSON.stringify(without.toJSON())).not.toContain('HELD#*');
  });
});

describe('models that no machine has served yet', () => {
  const PLANNED = 'dynamo-a1#Qwen/Qwen3-32B,dynamo#Qwen/Qwen3-8B';

  it('are named to the function and the container edge, once each with their namespace', () => {
    const { Edge } = productionTemplates({ ...GPUS, edges: { container: { listener: 'internal' } } });
    Edge!.hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: Match.objectLike({ STATOR_PLANNED_MODELS: PLANNED }) },
    });
    Edge!.hasResourceProperties('AWS::ECS::TaskDefinition', {
      ContainerDefinitions: Match.arrayWith([
        Match.objectLike({ Environment: Match.arrayWith([{ Name: 'STATOR_PLANNED_MODELS', Value: PLANNED }]) }),
      ]),
    });
    for (const process of ['function', 'frontend'] as const)
      expect(faultOfVariable(process, 'STATOR_PLANNED_MODELS', PLANNED)).toBeUndefined();
    expect(JSON.stringify(productionTemplates().Edge!.toJSON())).not.toContain('STATOR_PLANNED_MODELS');
  });

  it('are unknown to dev, which has no planner to start machines for them', () => {
    devTemplate(GPUS).hasResourceProperties('AWS::Lambda::Function', {
      Environment: {
        Variables: Match.objectLike({ STATOR_HOLD_TIMEOUT: '120', STATOR_PLANNED_MODELS: Match.absent() }),
      },
    });
  });

  it.each(['function', 'container'] as const)('cannot be other ones at the %s', (edge) => {
    const edges = { [edge]: { environment: { STATOR_PLANNED_MODELS: 'mine' } } };
    expect(() => readSettings({ ...GPUS, edges }, 'test')).toThrow(
      /STATOR_PLANNED_MODELS: follows from fleets of kind ec2/,
    );
  });

  it('have names that a list can hold', () => {
    const named = (model: string): StatorConfig => {
      const [fleet] = Object.values(GPUS.fleets ?? {});
      return { ...GPUS, models: { ...MODELS, [model]: {} }, fleets: { a: { ...fleet, model } } } as StatorConfig;
    };
    expect(() => readSettings(named('my model'), 'test')).toThrow(
      'fleets.a.model: "my model": must have no blanks or commas',
    );
    expect(() => readSettings(named('my-model'), 'test')).not.toThrow();
  });
});

describe('how long a request waits for a worker', () => {
  const { fleets = {} } = GPUS;
  const [name = '', fleet] = Object.entries(fleets)[0]!;
  const secsOf = (config: StatorConfig) => holdSecsOf(readSettings({ ...GPUS, models: MODELS, ...config }, 'test'));
  const starting = (startSecs: number): StatorConfig =>
    ({ fleets: { [name]: { ...fleet, startSecs } } }) as StatorConfig;

  it.each([
    [40, 120],
    [200, 330],
    [301, 482],
    [480, 750],
    [600, 870],
    [3600, 870],
  ])('is one and a half times a start of %d s and 30 s: %d s', (startSecs, secs) => {
    expect(secsOf(starting(startSecs))).toBe(secs);
  });

  it('is what the settings say, and 120 s without machines that must start', () => {
    expect(secsOf({ ...starting(480), limits: { holdSecs: 60 } })).toBe(60);
    expect(secsOf({ ...starting(480), limits: { holdSecs: 0 } })).toBe(0);
    expect(holdSecsOf(readSettings({}, 'test'))).toBe(120);
  });
});
