import { Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { devTemplate, productionTemplates, rightsOf } from './templates.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:123456789012:planner.fifo';
const vpc = {
  id: 'vpc-0123456789abcdef0',
  availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'],
  privateSubnetIds: ['subnet-0000000a', 'subnet-0000000b', 'subnet-0000000c'],
  privateRouteTableIds: ['rtb-a', 'rtb-b', 'rtb-c'],
};

describe('the queue of a planner elsewhere', () => {
  it.each(['dev', 'production'])('is told by the resident router, which may send and nothing else: %s', (name) => {
    const planner = { queueArn };
    const template = name === 'dev' ? devTemplate({ planner }) : productionTemplates({ planner }).Edge!;
    const text = JSON.stringify(template.toJSON());
    expect(text).toContain('"Name":"STATOR_PLANNER_QUEUE_URL","Value":{"Fn::Join":["",["https://sqs.eu-west-1.');
    expect(text).toContain('/123456789012/planner.fifo"]]}}');
    expect(rightsOf(template, /TaskRole/).map(([, actions]) => actions)).toContainEqual(['sqs:SendMessage']);
    template.resourceCountIs('AWS::EC2::VPCEndpoint', name === 'dev' ? 2 : 0);
  });

  it('is reached through an endpoint in a VPC of yours without a way to the internet, by edges alone', () => {
    const { Edge } = productionTemplates({ planner: { queueArn, endpoint: true }, network: { vpc } });
    Edge!.hasResourceProperties('AWS::EC2::VPCEndpoint', {
      VpcEndpointType: 'Interface',
      PrivateDnsEnabled: true,
      SubnetIds: vpc.privateSubnetIds,
    });
    const openings = Object.values(
      Edge!.findResources('AWS::EC2::SecurityGroup', {
        Properties: { GroupDescription: 'Endpoint of SQS for Stator' },
      }),
    );
    expect(openings.map(({ Properties }) => Properties.SecurityGroupIngress)).toEqual([undefined]);
    Edge!.hasResourceProperties('AWS::EC2::SecurityGroupIngress', {
      Description: 'Edges',
      FromPort: 443,
      SourceSecurityGroupId: { 'Fn::GetAtt': [Match.stringLikeRegexp('^EdgeSecurityGroup'), 'GroupId'] },
    });
  });

  it('is named to nobody without the setting', () => {
    const text = JSON.stringify(Object.values(productionTemplates()).map((template) => template.toJSON()));
    expect(text).not.toMatch(/PLANNER_QUEUE|sqs:/);
  });
});
