import { describe, expect, it } from 'vitest';
import { GPUS } from './deployments.ts';
import { productionTemplates, type Resource } from './templates.ts';

interface Target {
  readonly Arn: object;
  readonly DeadLetterConfig: { readonly Arn: object };
  readonly RoleArn?: object;
}
interface Policy {
  readonly PolicyDocument: { readonly Statement: readonly object[] };
  readonly Queues?: readonly { readonly Ref: string }[];
  readonly Roles?: readonly { readonly Ref: string }[];
}

const { Planner: planner } = productionTemplates(GPUS);
const of = (type: string) =>
  (Object.entries(planner!.findResources(type)) as [string, Resource][]).map(
    ([id, { Properties }]) => [id, Properties] as const,
  );
const arnOf = (id: string) => ({ 'Fn::GetAtt': [id, 'Arn'] });
/** Queues to which a target sends: its own, and the one for what could not be delivered. */
const queuesOf = ({ Arn, DeadLetterConfig }: Target): readonly object[] => [Arn, DeadLetterConfig.Arn];
const has = (all: readonly object[], one: object): boolean =>
  all.some((each) => JSON.stringify(each) === JSON.stringify(one));
const queueIds = of('AWS::SQS::Queue').map(([id]) => id);
const rules = of('AWS::Events::Rule').map(([id, { Targets }]) => [id, Targets as readonly Target[]] as const);
const schedules = of('AWS::Scheduler::Schedule').map(([, { Target }]) => Target as Target);

describe('who may send to the queues of the planner', () => {
  it('has rules and schedules of the example', () => {
    expect(rules.length).toBeGreaterThan(0);
    expect(schedules.length).toBeGreaterThan(0);
    expect(queueIds).toHaveLength(3);
  });

  it.each(queueIds)('is the rules that have %s as their target, and no other service or account', (id) => {
    const senders = rules.filter(([, targets]) => targets.some((target) => has(queuesOf(target), arnOf(id))));
    const overTls = {
      Effect: 'Deny',
      Principal: { AWS: '*' },
      Action: 'sqs:*',
      Resource: arnOf(id),
      Condition: { Bool: { 'aws:SecureTransport': 'false' } },
    };
    const byRules = {
      Effect: 'Allow',
      Principal: { Service: 'events.amazonaws.com' },
      Action: 'sqs:SendMessage',
      Resource: arnOf(id),
      Condition: { ArnEquals: { 'aws:SourceArn': senders.map(([rule]) => arnOf(rule)) } },
    };
    const policies = of('AWS::SQS::QueuePolicy').map(([, each]) => each as unknown as Policy);
    const own = policies.filter(({ Queues = [] }) => Queues.some(({ Ref }) => Ref === id));
    expect(own.map(({ Queues }) => Queues)).toEqual([[{ Ref: id }]]);
    expect(own[0]?.PolicyDocument.Statement).toEqual(senders.length === 0 ? [overTls] : [overTls, byRules]);
  });

  it('is a role of the schedules, which only the Scheduler of this account takes on, for sending to their queues', () => {
    const roles = new Set(schedules.map(({ RoleArn }) => JSON.stringify(RoleArn)));
    const [[id, role]] = of('AWS::IAM::Role').filter(([each]) => roles.has(JSON.stringify(arnOf(each)))) as [
      [string, Resource['Properties']],
    ];
    expect([...roles]).toEqual([JSON.stringify(arnOf(id))]);
    const { Statement: trust } = role.AssumeRolePolicyDocument as Policy['PolicyDocument'];
    expect(trust).toEqual([
      {
        Effect: 'Allow',
        Principal: { Service: 'scheduler.amazonaws.com' },
        Action: 'sts:AssumeRole',
        Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
      },
    ]);
    expect(role).not.toHaveProperty('ManagedPolicyArns');
    expect(role).not.toHaveProperty('Policies');
    const used = queueIds.map(arnOf).filter((queue) => schedules.some((target) => has(queuesOf(target), queue)));
    const policies = of('AWS::IAM::Policy').map(([, each]) => each as unknown as Policy);
    const [policy, ...others] = policies.filter(({ Roles = [] }) => Roles.some(({ Ref }) => Ref === id));
    expect(others).toEqual([]);
    const { Statement: statements } = policy!.PolicyDocument;
    expect(statements).toEqual([{ Effect: 'Allow', Action: 'sqs:SendMessage', Resource: expect.any(Array) }]);
    const [{ Resource: on }] = statements as [{ readonly Resource: readonly object[] }];
    expect(new Set(on)).toEqual(new Set(used));
  });
});
