import { Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import example from '../../infra/examples/ec2.config.ts';
import { devTemplate, productionTemplates, statementsOf } from './templates.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:123456789012:planner.fifo';
const vpc = {
  id: 'vpc-0123456789abcdef0',
  availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'],
  privateSubnetIds: ['subnet-0000000a', 'subnet-0000000b', 'subnet-0000000c'],
  privateRouteTableIds: ['rtb-a', 'rtb-b', 'rtb-c'],
};

describe('the queue of a planner elsewhere', () => {
  it.each(['dev', 'production'])('gets events from the resident router, which may only send: %s', (name) => {
    const planner = { queueArn };
    const template = name === 'dev' ? devTemplate({ planner }) : productionTemplates({ planner }).Edge!;
    const text = JSON.stringify(template.toJSON());
    expect(text).toContain('"Name":"STATOR_PLANNER_QUEUE_URL","Value":{"Fn::Join":["",["https://sqs.eu-west-1.');
    expect(text).toContain('/123456789012/planner.fifo"]]}}');
    const rights = statementsOf(template).filter(({ Action }) => JSON.stringify(Action).includes('sqs:'));
    expect(rights).toEqual([{ Effect: 'Allow', Action: 'sqs:SendMessage', Resource: queueArn }]);
    expect(statementsOf(template, /TaskTaskRole/)).toContainEqual(rights[0]);
    template.resourceCountIs('AWS::EC2::VPCEndpoint', name === 'dev' ? 2 : 0);
  });

  it('is reached through an endpoint in a VPC of yours without a way to the internet, by edges alone', () => {
    const { Edge } = productionTemplates({ planner: { queueArn, endpoint: true }, network: { vpc } });
    Edge!.hasResourceProperties('AWS::EC2::VPCEndpoint', {
      VpcEndpointType: 'Interface',
      PrivateDnsEnabled: true,
      SubnetIds: vpc.privateSubnetIds,
      ServiceName: { 'Fn::Join': ['', ['com.amazonaws.', { Ref: 'AWS::Region' }, '.sqs']] },
      SecurityGroupIds: [{ 'Fn::GetAtt': [Match.stringLikeRegexp('^PlannerQueueEndpointSecurityGroup'), 'GroupId'] }],
    });
    const openings = Object.entries(
      Edge!.findResources('AWS::EC2::SecurityGroup', {
        Properties: { GroupDescription: 'Endpoint of SQS for Stator' },
      }),
    );
    expect(openings.map(([, { Properties }]) => Properties.SecurityGroupIngress)).toEqual([undefined]);
    const ingress = Object.values(Edge!.findResources('AWS::EC2::SecurityGroupIngress')).filter(
      ({ Properties }) => Properties.GroupId['Fn::GetAtt']?.[0] === openings[0]?.[0],
    );
    expect(ingress.map(({ Properties }) => Properties.Description as unknown)).toEqual(['Edges']);
    Edge!.hasResourceProperties('AWS::EC2::SecurityGroupIngress', {
      Description: 'Edges',
      FromPort: 443,
      SourceSecurityGroupId: { 'Fn::GetAtt': [Match.stringLikeRegexp('^EdgeSecurityGroup'), 'GroupId'] },
    });
  });

  it('is reached through that endpoint by machines of a fleet on EC2, too, whose agents report to a planner', () => {
    const { Edge } = productionTemplates({ ...example, planner: { queueArn, endpoint: true }, network: { vpc } });
    const ingress = Object.values(Edge!.findResources('AWS::EC2::SecurityGroupIngress')).filter(({ Properties }) =>
      String(Properties.GroupId['Fn::GetAtt']?.[0]).startsWith('PlannerQueueEndpoint'),
    );
    expect(ingress.map(({ Properties }) => Properties.Description as unknown).sort()).toEqual(['Edges', 'Machines']);
    expect(JSON.stringify(ingress)).toContain('NetworkWorkerSecurityGroup');
  });

  it('is named to no process without the setting', () => {
    const text = JSON.stringify(Object.values(productionTemplates()).map((template) => template.toJSON()));
    expect(text).not.toMatch(/PLANNER_QUEUE|sqs:/);
  });
});
