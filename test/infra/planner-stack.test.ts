import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Stack } from 'aws-cdk-lib';
import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { groupNamesOf, plannerFleetsOf } from '../../infra/constructs/ec2-fleet/planner-fleets.ts';
import example from '../../infra/examples/ec2.config.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { faultOfVariable, rowOfVariable } from '../../shared/config/index.ts';
import { INSTANCE_EVENTS_GROUP, parsePlannerConfig } from '../../shared/planner/index.ts';
import { groupOf, readPlannerText } from '../../shared/protocol/index.ts';
import { GPUS } from './deployments.ts';
import {
  devTemplate,
  openApp,
  productionStacks,
  productionTemplates,
  type Resource,
  rightsOf,
  statementsOf,
} from './templates.ts';

type Body = Readonly<Record<string, unknown>>;
interface Golden {
  readonly event: Body;
  readonly expected: object | undefined;
}

const FOLDER = 'test/fixtures/planner/eventbridge-events';
const GOLDEN = readdirSync(FOLDER).map(
  (file) => [file, JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Golden] as const,
);

/** The event with the name of its type as EventBridge writes it. */
const named = ({ detail_type: type, ...event }: Body): Body => ({ 'detail-type': type, ...event });

/** Whether an event matches a pattern ("Creating Amazon EventBridge event patterns"), of those that rules here use. */
function matches(pattern: unknown, event: unknown): boolean {
  if (!Array.isArray(pattern))
    return Object.entries(pattern as Body).every(([key, each]) => matches(each, (event as Body | undefined)?.[key]));
  return pattern.some((each: unknown) =>
    typeof each === 'object' && each !== null && 'prefix' in each
      ? typeof event === 'string' && event.startsWith(String(each.prefix))
      : each === event,
  );
}

const queueArn = 'arn:aws:sqs:eu-west-1:123456789012:planner.fifo';
const { Planner: planner, ...others } = productionTemplates(GPUS);
const of = (type: string): readonly Resource[] => Object.values(planner!.findResources(type)) as Resource[];
const groups = groupNamesOf(plannerFleetsOf(readSettings(GPUS, 'test')).fleets);

describe('the planner of a deployment', () => {
  it('comes with the first fleet on EC2, unless another planner has a queue for it', () => {
    expect(planner).toBeDefined();
    expect(productionTemplates().Planner).toBeUndefined();
    expect(productionTemplates({ ...GPUS, planner: { queueArn } }).Planner).toBeUndefined();
    devTemplate(GPUS).resourceCountIs('AWS::SQS::Queue', 0);
  });

  it('is on the one dashboard of the deployment, with the machines of every group', () => {
    const boards = Object.values({ planner, ...others }).flatMap((template) =>
      Object.values(template!.findResources('AWS::CloudWatch::Dashboard')),
    );
    expect(boards).toHaveLength(1);
    const body = JSON.stringify(boards);
    for (const name of ['Planner', 'Machines that serve', 'Use of GPUs, %']) expect(body).toContain(name);
    for (const group of groups) expect(body).toContain(group);
  });

  it('takes messages from a queue in their order, a model at a time, and drops those that say nothing new', () => {
    planner!.hasResourceProperties('AWS::SQS::Queue', {
      FifoQueue: true,
      ContentBasedDeduplication: true,
      DeduplicationScope: 'messageGroup',
      FifoThroughputLimit: 'perMessageGroupId',
      MessageRetentionPeriod: 600,
      SqsManagedSseEnabled: true,
    });
    planner!.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      BatchSize: 10,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: 3 },
    });
  });

  it('sets messages aside that fail, before they are too old: else no alarm would ever tell of them', () => {
    const [events] = of('AWS::SQS::Queue').filter(({ Properties }) => Properties.RedrivePolicy !== undefined);
    const { RedrivePolicy, VisibilityTimeout, MessageRetentionPeriod } = events!.Properties as {
      readonly RedrivePolicy: { readonly maxReceiveCount: number; readonly deadLetterTargetArn: object };
      readonly VisibilityTimeout: number;
      readonly MessageRetentionPeriod: number;
    };
    expect(RedrivePolicy.maxReceiveCount * VisibilityTimeout).toBeLessThan(MessageRetentionPeriod);
    const [id = ''] = (Object.values(RedrivePolicy.deadLetterTargetArn) as string[][])[0] ?? [];
    const dead = planner!.findResources('AWS::SQS::Queue')[id];
    expect(dead?.Properties).toMatchObject({ FifoQueue: true, MessageRetentionPeriod: 14 * 86_400 });
    const [{ Properties }] = of('AWS::Lambda::Function') as [Resource];
    expect(VisibilityTimeout).toBeGreaterThanOrEqual(Properties.Timeout as number); // Lambda refuses less
    expect(Properties.Timeout).toBeLessThan(60); // the lease of a model
  });

  it('refuses calls that are not encrypted', () => {
    const policies = of('AWS::SQS::QueuePolicy');
    expect(policies).toHaveLength(of('AWS::SQS::Queue').length);
    for (const policy of policies) expect(JSON.stringify(policy)).toContain('"aws:SecureTransport":"false"');
  });

  it('is a function of its own size and concurrency, outside of the network', () => {
    planner!.hasResourceProperties('AWS::Lambda::Function', {
      Runtime: 'nodejs22.x',
      Architectures: ['arm64'],
      MemorySize: 512,
      Timeout: 45,
      ReservedConcurrentExecutions: 3, // two models, and events of machines
      VpcConfig: Match.absent(),
      LoggingConfig: Match.objectLike({ LogFormat: 'JSON', LogGroup: Match.anyValue() }),
    });
    const shared = productionTemplates({ ...GPUS, edges: { function: { concurrencyMax: 'account' } } }).Planner!;
    shared.hasResourceProperties('AWS::Lambda::Function', { ReservedConcurrentExecutions: Match.absent() });
  });

  it('gets only variables that a planner reads', () => {
    const [{ Properties }] = of('AWS::Lambda::Function') as [Resource];
    const { Variables } = Properties.Environment as { readonly Variables: Readonly<Record<string, unknown>> };
    expect(Object.keys(Variables).sort()).toEqual([
      'DYN_DISCOVERY_BACKEND',
      'DYN_LOG',
      'DYN_LOGGING_JSONL',
      'DYN_REQUEST_PLANE',
      'STATOR_DISCOVERY_TABLE',
      'STATOR_PLANNER_TABLE',
    ]);
    for (const [name, value] of Object.entries(Variables)) {
      expect(rowOfVariable('planner', name), name).toBeDefined();
      expect(
        faultOfVariable('planner', name, typeof value === 'string' ? value : 'made-by-cloudformation'),
      ).toBeUndefined();
    }
  });

  it('may do what it does, and nothing else', () => {
    const rights = statementsOf(planner!, /^PlannerRole/).flatMap(({ Action, Resource }) =>
      [Action].flat().map((action) => [action, JSON.stringify(Resource)] as const),
    );
    const rightsOn = (pattern: RegExp) =>
      rights
        .filter(([, on]) => pattern.test(on))
        .map(([action]) => action)
        .sort();
    const groupsOf = (resource: string) =>
      [...resource.matchAll(/autoScalingGroupName\/([\w-]+)/g)].map(([, name]) => name);
    expect(rightsOn(/LogGroup/)).toEqual(['logs:CreateLogStream', 'logs:PutLogEvents']);
    expect(rightsOn(/EventsQueue/)).toEqual(['sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ReceiveMessage']);
    expect(rightsOn(/"Table/)).toEqual(['dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem']);
    const discovery = ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem'];
    expect(rightsOn(/Discovery/)).toEqual(discovery);
    expect(rightsOn(/^"\*"$/)).toEqual([
      'autoscaling:DescribeAutoScalingGroups',
      'autoscaling:DescribeAutoScalingInstances',
      'autoscaling:DescribeInstanceRefreshes',
      'autoscaling:DescribeScalingActivities',
    ]);
    const changes = rights.filter(([, on]) => on.includes('autoScalingGroup:'));
    expect(changes.map(([action]) => action).sort()).toEqual([
      'autoscaling:CompleteLifecycleAction',
      'autoscaling:SetDesiredCapacity',
      'autoscaling:SetInstanceProtection',
      'autoscaling:TerminateInstanceInAutoScalingGroup',
    ]);
    for (const [, on] of changes) expect(groupsOf(on).sort()).toEqual([...groups].sort());
    expect(groups).toHaveLength(5);
    expect(rights).toHaveLength(2 + 3 + 4 + 4 + 4 + 3);
    expect(JSON.stringify(rights)).not.toMatch(/"ec2:|:\*"/);
  });

  it('changes of the discovery table only leases, in which it orders workers to drain', () => {
    const updates = statementsOf(planner!, /^PlannerRole/).filter(
      ({ Action, Resource }) =>
        [Action].flat().includes('dynamodb:UpdateItem') && /Discovery/.test(JSON.stringify(Resource)),
    );
    expect(updates).toEqual([
      expect.objectContaining({
        Action: 'dynamodb:UpdateItem',
        Condition: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['v1/leases#*'] } },
      }),
    ]);
  });

  it('hears container edges and the agents of machines, which may only send', () => {
    const tellers = ['Edge', 'Fleet-chat-a1', 'Fleet-code-decode', 'Fleet-code-prefill'];
    for (const name of tellers) {
      const rights = statementsOf(others[name]!).filter(({ Action }) => JSON.stringify(Action).includes('sqs:'));
      expect(rights.map(({ Action }) => Action)).toEqual(['sqs:SendMessage']);
      expect(JSON.stringify(rights)).toContain('"StackName":"Stator-Planner"');
      expect(JSON.stringify(others[name]!.toJSON())).toContain('STATOR_PLANNER_QUEUE_URL');
    }
    expect(JSON.stringify(others['Fleet-mock']!.toJSON())).not.toContain('STATOR_PLANNER_QUEUE_URL');
  });

  it('keeps its table when its stack is deleted, if the deployment keeps its data', () => {
    const [kept] = of('AWS::DynamoDB::Table');
    expect(kept).toMatchObject({ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    const { Planner: released } = productionTemplates({ ...GPUS, retain: false });
    expect(Object.values(released!.findResources('AWS::DynamoDB::Table'))[0]).toMatchObject({
      DeletionPolicy: 'Delete',
    });
  });
});

describe('what wakes the planner', () => {
  const queueId = Object.keys(planner!.findResources('AWS::SQS::Queue')).find((id) => id.startsWith('EventsQueue'))!;
  const undeliveredId = Object.keys(planner!.findResources('AWS::SQS::Queue')).find((id) => /Undelivered/.test(id))!;
  const fleets = plannerFleetsOf(readSettings(GPUS, 'test')).fleets;

  it('is a tick for each model every minute, which a planner reads, in the message group of the model', () => {
    const ticks = of('AWS::Scheduler::Schedule').map(({ Properties }) => Properties);
    const targets = ticks.map(({ Target }) => Target as { readonly Input: string; readonly SqsParameters: object });
    expect(targets.map(({ SqsParameters }) => SqsParameters)).toEqual(
      fleets.map((fleet) => ({ MessageGroupId: groupOf(fleet) })),
    );
    for (const [at, { Input }] of targets.entries()) {
      const sent = Input.replace('<aws.scheduler.execution-id>', 'd32c5kddcf5bb8c3').replace(
        '<aws.scheduler.scheduled-time>',
        '2026-11-28T18:00:00Z',
      );
      const { namespace, model } = fleets[at]!;
      expect(readPlannerText(sent)).toMatchObject({ kind: 'event', event: { type: 'tick', namespace, model } });
    }
    for (const tick of ticks) {
      expect(tick).toMatchObject({ ScheduleExpression: 'rate(1 minute)', FlexibleTimeWindow: { Mode: 'OFF' } });
      expect(tick.Target).toMatchObject({
        Arn: { 'Fn::GetAtt': [queueId, 'Arn'] },
        DeadLetterConfig: { Arn: { 'Fn::GetAtt': [undeliveredId, 'Arn'] } },
      });
    }
    expect(rightsOf(planner!, /^TicksRole/).map(([, actions]) => actions)).toEqual([['sqs:SendMessage']]);
  });

  it.each(GOLDEN)('is the event %s exactly if a planner can do something with it', (_file, { event, expected }) => {
    const [first] = groups;
    const text = JSON.stringify(event).replaceAll('my-auto-scaling-group', first!);
    const matching = of('AWS::Events::Rule').filter(({ Properties }) =>
      matches(Properties.EventPattern, named(JSON.parse(text) as Body)),
    );
    const ids = matching.flatMap(({ Properties }) =>
      (Properties.Targets as { readonly SqsParameters: { readonly MessageGroupId: string } }[]).map(
        ({ SqsParameters }) => SqsParameters.MessageGroupId,
      ),
    );
    const ofGroup = event.source === 'aws.autoscaling';
    const isRead = expected !== undefined && 'signals' in expected;
    expect(ids).toEqual(isRead ? [ofGroup ? groupOf(fleets[0]!) : INSTANCE_EVENTS_GROUP] : []);
  });

  it('keeps what could not be delivered within an hour in a queue that EventBridge takes', () => {
    for (const { Properties } of of('AWS::Events::Rule')) {
      expect(Properties.Targets).toEqual([
        expect.objectContaining({
          Arn: { 'Fn::GetAtt': [queueId, 'Arn'] },
          DeadLetterConfig: { Arn: { 'Fn::GetAtt': [undeliveredId, 'Arn'] } },
          RetryPolicy: { MaximumEventAgeInSeconds: 3600 },
        }),
      ]);
    }
    const undelivered = planner!.findResources('AWS::SQS::Queue')[undeliveredId];
    expect(undelivered?.Properties).toMatchObject({ MessageRetentionPeriod: 14 * 86_400, SqsManagedSseEnabled: true });
    expect(undelivered?.Properties.FifoQueue).toBeUndefined();
  });
});

describe('the settings of the planner', () => {
  const problemOf = (given: object): string | undefined => {
    try {
      readSettings(given, 'file');
      return undefined;
    } catch (thrown) {
      return (thrown as Error).message;
    }
  };

  it('bound the GPUs of all models together', () => {
    const given = { ...example, planner: { gpusMax: 24 } };
    expect(plannerFleetsOf(readSettings(given, 'file')).gpusMax).toBe(24);
    expect(plannerFleetsOf(readSettings(example, 'file')).gpusMax).toBeUndefined();
  });

  it.each<[object, string]>([
    [
      { planner: { gpusMax: 8 } },
      "planner.gpusMax: 8: is for the deployment's own planner, and there is no fleet of kind: ec2",
    ],
    [
      { ...example, planner: { gpusMax: 8, queueArn } },
      "planner.gpusMax: 8: is for the deployment's own planner, and planner.queueArn names another one",
    ],
    [{ ...example, planner: { gpusMax: 0 } }, 'planner.gpusMax'],
    [{ planner: { endpoint: true } }, 'planner.endpoint: needs planner.queueArn, or a fleet of kind: ec2'],
  ])('are refused where they change nothing: %j', (given, message) => {
    expect(problemOf(given)).toContain(message);
  });

  const MODEL = 'Qwen/Qwen3-32B';
  const withLaw = (planner: object) => ({ ...example, models: { ...example.models, [MODEL]: { planner } } });

  it('give each model a law of its own', () => {
    const law = { law: 'latency', ttft_ms: 800, idle_to_zero_seconds: 1800 };
    const [chat, code] = plannerFleetsOf(readSettings(withLaw(law), 'file')).fleets;
    expect(chat?.planner).toEqual({ mode: 'agg', min_endpoint: 0, start_at_zero: true, max_gpu_budget: 48, ...law });
    expect(code?.planner).not.toHaveProperty('law');
    expect(parsePlannerConfig(chat?.planner ?? {})).toMatchObject({ law: 'latency', ttftMs: 800 });
  });

  it.each<[string, string, Record<string, unknown>, string | undefined]>([
    ['none', MODEL, {}, 'rate_requests_per_second'],
    ['one', MODEL, { rate_requests_per_second: 2 }, undefined],
    ['another law', MODEL, { law: 'latency' }, undefined],
    ['one of two pools', 'Qwen/Qwen3-8B', { rate_prefill_requests_per_second: 4 }, 'rate_decode_requests_per_second'],
    ['none of two pools', 'Qwen/Qwen3-8B', {}, 'rate_prefill_requests_per_second and rate_decode_requests_per_second'],
    ['both pools', 'Qwen/Qwen3-8B', { rate_requests_per_second: 2 }, undefined],
  ])('warn of a model whose workers have no measured rate: %s', (_name, model, law, missing) => {
    const given = { ...example, models: { ...example.models, [model]: { planner: law } } };
    const edge = Annotations.fromStack(productionStacks(openApp(), given).node.findChild('Edge') as Stack);
    if (missing === undefined) edge.hasNoWarning('*', Match.stringLikeRegexp('^models'));
    else edge.hasWarning('*', Match.stringLikeRegexp(`^models.${model}.planner lacks ${missing}, the requests`));
  });

  it.each<[object, string]>([
    [withLaw({ tfft_ms: 800 }), `models.${MODEL}.planner.tfft_ms: unknown key; did you mean ttft_ms?`],
    [withLaw({ law: 'foresight' }), `models.${MODEL}.planner: law: `],
    [withLaw({ ttft_ms: '1s' }), `models.${MODEL}.planner: ttft_ms: `],
    [withLaw({ law: 'load' }), `models.${MODEL}.planner: law load needs decode_scale_up_kv_rate`],
    [withLaw({ max_gpu_budget: 8 }), `planner.max_gpu_budget: is not allowed: it follows from replicas.max`],
    [
      { models: { 'stator-mini': { planner: {} } } },
      'models.stator-mini.planner: is for models with a fleet of kind: ec2',
    ],
  ])('refuse a law that no planner would follow: %#', (given, message) => {
    expect(problemOf(given)).toContain(message);
  });
});
