import { describe, expect, it } from 'vitest';
import example from '../../infra/examples/ec2.config.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { productionTemplates, statementsOf } from './templates.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:123456789012:planner.fifo';

describe('a planner of as many models as the settings may have', () => {
  const names = Array.from({ length: 58 }, (_, at) => `model-${at}`);
  const { Planner: large } = productionTemplates({
    ...example,
    models: Object.fromEntries(names.map((model) => [model, { wanted: false }])),
    fleets: Object.fromEntries(
      names.map((model) => [
        model,
        {
          ...{ kind: 'ec2', model, options: [{ types: ['g6.xlarge'], max: 1 }], replicas: { max: 1 } },
          engine: { image: 'registry.example/worker:1' },
        },
      ]),
    ),
    machineImages: {},
  });

  // "Amazon SQS policy quotas": 8,192 bytes, 10 conditions, 20 statements.
  it('has policies of queues that SQS takes, which let every rule send', () => {
    const rules = Object.keys(large!.findResources('AWS::Events::Rule'));
    expect(rules).toHaveLength(names.length + 2);
    const sentBy: string[][] = [];
    for (const { Properties } of Object.values(large!.findResources('AWS::SQS::QueuePolicy'))) {
      const { Statement: statements } = Properties.PolicyDocument as { readonly Statement: readonly object[] };
      const conditions = statements.flatMap((each) =>
        Object.values('Condition' in each ? (each.Condition as object) : {}),
      );
      expect(conditions.flatMap((each) => Object.keys(each as object)).length).toBeLessThanOrEqual(10);
      expect(statements.length).toBeLessThanOrEqual(20);
      const longest = `arn:aws:events:ap-southeast-1:123456789012:rule/${'n'.repeat(64)}`;
      const text = JSON.stringify(statements).replaceAll(/\{"Fn::GetAtt":\["\w+","Arn"\]\}/g, `"${longest}"`);
      expect(text.length).toBeLessThan(8000);
      const senders = [...JSON.stringify(conditions).matchAll(/"Fn::GetAtt":\["(\w+)","Arn"\]/g)];
      sentBy.push(senders.map(([, id = '']) => id).sort());
    }
    expect(sentBy.filter((each) => each.length > 0)).toEqual([[...rules].sort(), [...rules].sort()]);
  });

  // "IAM and AWS STS quotas": 10,240 characters within a role, 6,144 in each policy that it refers to.
  it('has policies that IAM takes, which name every group', () => {
    const sizes = { 'AWS::IAM::Policy': 10_240, 'AWS::IAM::ManagedPolicy': 6144 };
    for (const [type, size] of Object.entries(sizes))
      for (const { Properties } of Object.values(large!.findResources(type))) {
        const text = JSON.stringify(Properties.PolicyDocument)
          .replaceAll('{"Ref":"AWS::Partition"}', 'aws-us-gov')
          .replaceAll('{"Ref":"AWS::Region"}', 'us-gov-west-1')
          .replaceAll('{"Ref":"AWS::AccountId"}', '123456789012')
          .replaceAll(
            /\{"Fn::Join":\["",\[(.*?)\]\]\}/g,
            (_, parts: string) => `"${parts.replaceAll(/","|"|,/g, '')}"`,
          );
        expect(text.length).toBeLessThan(size);
      }
    const changes = statementsOf(large!).filter(({ Action }) => JSON.stringify(Action).includes('SetDesiredCapacity'));
    const named = [...JSON.stringify(changes).matchAll(/autoScalingGroupName\/([\w-]+)/g)];
    expect(named.map(([, group]) => group).sort()).toEqual(names.map((name) => `Stator-${name}-0-on-demand`).sort());
  });

  it('is refused with more fleets or options, unless another planner scales them', () => {
    const option = { types: ['g6.xlarge'], max: 1 };
    const manyOf = (count: number, options: number) => ({
      models: { m: { wanted: false } },
      fleets: Object.fromEntries(
        Array.from({ length: count }, (_, at) => [
          `f${at}`,
          {
            ...{ kind: 'ec2', model: 'm', generation: `g${at}`, replicas: { max: 1 } },
            ...{ engine: { image: 'registry.example/worker:1' }, options: Array(options).fill(option) },
          },
        ]),
      ),
    });
    expect(() => readSettings(manyOf(58, 4), 'file')).not.toThrow();
    expect(() => readSettings(manyOf(59, 1), 'file')).toThrow(
      'file: fleets: 59 are of kind ec2: one planner scales at most 58',
    );
    expect(() => readSettings(manyOf(32, 8), 'file')).toThrow(
      'file: fleets: 256 options on EC2: one planner scales at most 250',
    );
    expect(() => readSettings({ ...manyOf(59, 1), planner: { queueArn } }, 'file')).not.toThrow();
  });
});
