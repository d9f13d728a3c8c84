import { describe, expect, it } from 'vitest';
import { devTemplate, productionTemplates, type Resource, statementsOf } from './templates.ts';

describe.each(['dev', 'production'] as const)('the roles of %s', (name) => {
  const templates = name === 'dev' ? [devTemplate()] : Object.values(productionTemplates());
  const resources = templates.flatMap((template) =>
    Object.entries((template.toJSON() as { Resources: Record<string, Resource> }).Resources),
  );

  it('refuse code of the function what Lambda may do with network interfaces for it', () => {
    const denied = templates
      .flatMap((template) => statementsOf(template))
      .filter(({ Effect, Action }) => Effect === 'Deny' && JSON.stringify(Action).includes('ec2:'));
    expect(denied).toEqual([
      {
        Effect: 'Deny',
        Action: [
          'ec2:AssignPrivateIpAddresses',
          'ec2:CreateNetworkInterface',
          'ec2:DeleteNetworkInterface',
          'ec2:DescribeNetworkInterfaces',
          'ec2:UnassignPrivateIpAddresses',
        ],
        Resource: '*',
        Condition: {
          ArnEquals: {
            'lambda:SourceFunctionArn': { 'Fn::GetAtt': [expect.stringMatching(/^FrontHttpFunction/), 'Arn'] },
          },
        },
      },
    ]);
    const [[, policy]] = resources.filter(([id]) => /^FrontHttpInterfaces/.test(id)) as [[string, Resource]];
    expect(policy.Properties.Roles).toEqual([{ Ref: expect.stringMatching(/^FrontHttpRole/) }]);
  });

  it('are only for tasks of their account and region', () => {
    const ofTasks = resources.filter(([id, { Type }]) => Type === 'AWS::IAM::Role' && /TaskRole[0-9A-F]{8}$/.test(id));
    expect(ofTasks).toHaveLength(name === 'dev' ? 1 : 5); // edge, three NATS servers, mock workers
    for (const [, { Properties }] of ofTasks) {
      const { Statement } = Properties.AssumeRolePolicyDocument as { Statement: object[] };
      expect(Statement).toEqual([
        {
          Action: 'sts:AssumeRole',
          Effect: 'Allow',
          Principal: { Service: 'ecs-tasks.amazonaws.com' },
          Condition: {
            StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } },
            ArnLike: {
              'aws:SourceArn': {
                'Fn::Join': [
                  '',
                  [
                    'arn:',
                    { Ref: 'AWS::Partition' },
                    ':ecs:',
                    { Ref: 'AWS::Region' },
                    ':',
                    { Ref: 'AWS::AccountId' },
                    ':*',
                  ],
                ],
              },
            },
          },
        },
      ]);
    }
  });
});
