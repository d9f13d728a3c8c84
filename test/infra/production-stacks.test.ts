import { type Stack, Stage } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { renderNatsHealth } from '../../infra/nats-configuration.ts';
import { devTemplate, openApp, productionStacks, productionTemplates, type Resource, snapshotOf } from './templates.ts';

/** That of API keys can have replicas in other regions. */
const TABLES = ['AWS::DynamoDB::Table', 'AWS::DynamoDB::GlobalTable'];

let stacks: Readonly<Record<string, Template>>;
let data: Template;
let edge: Template;
let fleet: Template;
beforeAll(() => {
  stacks = productionTemplates();
  [data, edge, fleet] = [stacks.Data!, stacks.Edge!, stacks['Fleet-mock']!];
});

const CERTIFICATE = 'arn:aws:acm:eu-west-1:123456789012:certificate/a';
const DOMAIN = { name: 'llm.example.com', containerName: 'edge.example.com', certificateArn: CERTIFICATE };

/** Who may reach whom at which port, over all stacks. */
function openings(of: Readonly<Record<string, Template>>): readonly string[] {
  const groupIn = (text: unknown) =>
    /(Function|Worker|Edge|Nats|Balancer)(?=S?e?c?u?r?i?t?y?G?r?o?u?p?)/.exec(JSON.stringify(text))?.[1];
  return Object.values(of).flatMap((template) =>
    (Object.values(template.findResources('AWS::EC2::SecurityGroupIngress')) as Resource[]).map(
      ({ Properties: { GroupId, SourceSecurityGroupId, FromPort } }) =>
        `${groupIn(SourceSecurityGroupId)} -> ${groupIn(GroupId)} ${FromPort}`,
    ),
  );
}

describe('the stacks of production', () => {
  it('is a stack for what lasts, one for what a release replaces, and one for each fleet', () => {
    expect(Object.keys(stacks)).toEqual(['Data', 'Edge', 'Fleet-mock']);
    const generations = productionTemplates({
      fleets: {
        old: { kind: 'mock', model: 'stator-mini' },
        next: { kind: 'mock', model: 'stator-mini', generation: 'v2' },
      },
    });
    expect(Object.keys(generations)).toEqual(['Data', 'Edge', 'Fleet-old', 'Fleet-next-v2']);
    const text = JSON.stringify(generations['Fleet-next-v2']!.toJSON());
    expect(text).toContain('{"Name":"DYN_NAMESPACE_WORKER_SUFFIX","Value":"v2"}');
    expect(JSON.stringify(generations.Edge!.toJSON())).toContain('"DYN_NAMESPACE_PREFIX":"dynamo"');
  });

  it('keeps the ids of what holds state: another id would be another, empty table', () => {
    const ids = [...TABLES, 'AWS::S3::Bucket', 'AWS::SecretsManager::Secret', 'AWS::EC2::VPC'].flatMap((type) =>
      Object.keys(data.findResources(type)),
    );
    expect(ids.sort()).toMatchInlineSnapshot(`
      [
        "NetworkVpc7FB7348F",
        "StoreApiKeysTable39BE799C",
        "StoreArtifactsBucket2F232110",
        "StoreDiscoveryTable8A4CD94B",
        "StorePassedSecretsTable9A105642",
        "StoreResponsesTable0919CA89",
        "StoreRouterStateTable1CF24471",
        "StoreSecretsIdSecret6F6B0730",
        "StoreSecretsNatsRouter28CF1483",
        "StoreSecretsNatsWorker59608B27",
        "StoreSecretsPlaneToken77718D84",
      ]
    `);
  });

  it('keeps tables, bucket and secrets when it is deleted, unless told otherwise', () => {
    for (const type of [...TABLES, 'AWS::S3::Bucket', 'AWS::SecretsManager::Secret']) {
      const kept = Object.entries(data.findResources(type, { DeletionPolicy: 'RetainExceptOnCreate' }));
      const passing = Object.keys(data.findResources(type)).filter((id) => !kept.some(([each]) => each === id));
      expect(passing).toEqual(type === 'AWS::DynamoDB::Table' ? ['StorePassedSecretsTable9A105642'] : []); // edges write it anew
      if (!TABLES.includes(type)) continue;
      for (const [, { Properties }] of kept) {
        expect((Properties.Replicas?.[0] ?? Properties).DeletionProtectionEnabled).toBe(true);
      }
    }
    const passing = productionTemplates({ retain: false }).Data!;
    for (const type of TABLES) passing.allResources(type, { DeletionPolicy: 'Delete' });
    passing.resourceCountIs('Custom::S3AutoDeleteObjects', 1);
  });

  it('spreads over three zones with a NAT gateway each, unless told otherwise, with free ways to DynamoDB and S3', () => {
    expect(Object.keys(data.findResources('AWS::EC2::Subnet'))).toHaveLength(6);
    data.resourceCountIs('AWS::EC2::NatGateway', 3);
    productionTemplates({ network: { natGateways: 1 } }).Data!.resourceCountIs('AWS::EC2::NatGateway', 1);
    data.allResourcesProperties('AWS::EC2::VPCEndpoint', { VpcEndpointType: 'Gateway' });
  });

  it('hands a release to a tenth of the requests, watched by two alarms', () => {
    edge.hasResourceProperties('AWS::CodeDeploy::DeploymentGroup', {
      DeploymentConfigName: 'CodeDeployDefault.LambdaCanary10Percent5Minutes',
      AutoRollbackConfiguration: { Enabled: true, Events: Match.arrayWith(['DEPLOYMENT_STOP_ON_ALARM']) },
      AlarmConfiguration: { Enabled: true, Alarms: [Match.anyValue(), Match.anyValue()] },
    });
  });

  it('runs two edges that are one after the other replaced, and more of them under load', () => {
    edge.hasResourceProperties('AWS::ECS::Service', {
      DesiredCount: Match.absent(),
      DeploymentConfiguration: {
        MinimumHealthyPercent: 100,
        MaximumPercent: 200,
        DeploymentCircuitBreaker: { Enable: true, Rollback: true },
      },
      NetworkConfiguration: { AwsvpcConfiguration: Match.objectLike({ AssignPublicIp: 'DISABLED' }) },
    });
    edge.hasResourceProperties('AWS::ApplicationAutoScaling::ScalableTarget', { MinCapacity: 2, MaxCapacity: 8 });
    edge.resourceCountIs('AWS::ElasticLoadBalancingV2::LoadBalancer', 0);
  });

  it('lets only functions reach Choose, and no outside address reach anything', () => {
    expect([...openings(stacks)].sort()).toMatchInlineSnapshot(`
      [
        "Edge -> Nats 4222",
        "Edge -> Worker 8800",
        "Edge -> Worker 9100",
        "Function -> Edge 8700",
        "Function -> Worker 8800",
        "Function -> Worker 9100",
        "Nats -> Nats 6222",
        "Worker -> Nats 4222",
      ]
    `);
  });

  it('serves clients at the edge by TLS where it has a name, with time for streams to end', () => {
    const all = productionTemplates({ edges: { container: { listener: 'public' } }, domain: DOMAIN });
    all.Edge!.hasResourceProperties('AWS::ElasticLoadBalancingV2::Listener', {
      Port: 443,
      Protocol: 'HTTPS',
      Certificates: [{ CertificateArn: CERTIFICATE }],
    });
    all.Edge!.hasResourceProperties('AWS::ElasticLoadBalancingV2::TargetGroup', {
      Port: 8000,
      TargetGroupAttributes: Match.arrayWith([{ Key: 'deregistration_delay.timeout_seconds', Value: '900' }]),
    });
    all.Edge!.resourceCountIs('AWS::ApplicationAutoScaling::ScalingPolicy', 2);
    const groups = Object.values(all.Edge!.findResources('AWS::EC2::SecurityGroup')) as Resource[];
    const open = groups.flatMap(({ Properties }) => (Properties.SecurityGroupIngress ?? []) as { FromPort: number }[]);
    expect(open.map(({ FromPort }) => FromPort)).toEqual([443]);
  });

  it('makes both names if the configuration names their zone', () => {
    const hostedZone = { id: 'Z1', name: 'example.com' };
    const template = productionTemplates({
      edges: { container: { listener: 'public' } },
      domain: { ...DOMAIN, hostedZone },
    }).Edge!;
    const records = Object.values(template.findResources('AWS::Route53::RecordSet')).map(({ Properties }) => [
      Properties.Name as string,
      Properties.HostedZoneId as string,
      JSON.stringify(Properties.AliasTarget),
    ]);
    expect(records.sort()).toEqual([
      ['edge.example.com.', 'Z1', expect.stringMatching(/EdgeBalancer.*CanonicalHostedZoneID/)],
      ['llm.example.com.', 'Z1', expect.stringContaining('RegionalDomainName')],
    ]);
  });

  it('lets load balancers, and them alone, write their access logs', () => {
    const template = productionTemplates({ edges: { container: { listener: 'public' } }, domain: DOMAIN }).Edge!;
    template.hasResourceProperties('AWS::S3::BucketPolicy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({
            Action: 's3:PutObject',
            Effect: 'Allow',
            Principal: { Service: 'logdelivery.elasticloadbalancing.amazonaws.com' },
            Condition: { ArnLike: { 'aws:SourceArn': Match.anyValue() } },
          }),
        ]),
      },
    });
    template.allResources('AWS::S3::Bucket', { DeletionPolicy: 'RetainExceptOnCreate' });
    const passing = { edges: { container: { listener: 'internal' } }, retain: false } as const;
    productionTemplates(passing).Edge!.allResources('AWS::S3::Bucket', { DeletionPolicy: 'Delete' });
  });

  it('serves KServe by gRPC on the same name and port where it is asked for, and asks its health service', () => {
    const all = productionTemplates({ edges: { container: { listener: 'public', grpc: true } }, domain: DOMAIN }).Edge!;
    all.hasResourceProperties('AWS::ElasticLoadBalancingV2::TargetGroup', {
      Port: 8001,
      ProtocolVersion: 'GRPC',
      HealthCheckPath: '/grpc.health.v1.Health/Check',
      Matcher: { GrpcCode: '0' },
      TargetGroupAttributes: Match.arrayWith([{ Key: 'deregistration_delay.timeout_seconds', Value: '900' }]),
    });
    all.hasResourceProperties('AWS::ElasticLoadBalancingV2::ListenerRule', {
      Conditions: [
        {
          Field: 'path-pattern',
          PathPatternConfig: { Values: Match.arrayWith(['/inference.GRPCInferenceService/*']) },
        },
      ],
    });
    all.resourceCountIs('AWS::ElasticLoadBalancingV2::Listener', 1);
    const [edgeTask] = Object.values(all.findResources('AWS::ECS::TaskDefinition')).filter(({ Properties }) =>
      JSON.stringify(Properties).includes('STATOR_ROLES'),
    );
    expect(JSON.stringify(edgeTask)).toContain('{"Name":"STATOR_ROLES","Value":"grpc,http,router"}');
    expect(openings({ all }).filter((opening) => opening.endsWith('-> Edge 8001'))).toHaveLength(1);
  });

  it('runs three NATS servers with names that stay, a zone each, never two of them restarting', () => {
    const services = Object.entries(edge.findResources('AWS::ECS::Service')).filter(([id]) => id.startsWith('Nats'));
    expect(services).toHaveLength(3);
    const [first, second, third] = services.map(([id]) => id);
    for (const [, { Properties }] of services) {
      expect(Properties).toMatchObject({
        DesiredCount: 1,
        DeploymentConfiguration: { MinimumHealthyPercent: 0, MaximumPercent: 100 },
        NetworkConfiguration: { AwsvpcConfiguration: { Subnets: [expect.anything()] } },
      });
    }
    expect(services[1]?.[1].DependsOn).toContain(first);
    expect(services[2]?.[1].DependsOn).toContain(second);
    expect(services[0]?.[1].DependsOn ?? []).not.toContain(third);
    for (const Name of ['nats-0', 'nats-1', 'nats-2'])
      edge.hasResourceProperties('AWS::ServiceDiscovery::Service', { Name });
    expect(JSON.stringify(fleet.toJSON())).toContain('{"Name":"STATOR_NATS_STREAM_REPLICAS","Value":"3"}');
  });

  it('counts a NATS server as healthy while peers are missing, else none of three would be first', () => {
    const tasks = Object.values(edge.findResources('AWS::ECS::TaskDefinition')).flatMap(({ Properties }) => {
      const [container] = Properties.ContainerDefinitions as { Name: string; HealthCheck: { Command: string[] } }[];
      return container?.Name === 'nats' ? [container.HealthCheck.Command] : [];
    });
    const cluster = ['nats-0', 'nats-1', 'nats-2'];
    expect(tasks).toEqual(cluster.map(() => ['CMD-SHELL', renderNatsHealth({ cluster })]));
  });

  it('can have one NATS server', () => {
    const single = productionTemplates({ nats: { servers: 1 } }).Edge!;
    single.resourceCountIs('AWS::ECS::Service', 2);
    single.hasResourceProperties('AWS::ServiceDiscovery::Service', { Name: 'nats' });
  });

  it('are all taken by cdk deploy --all, which passes over those of a stage', () => {
    const app = openApp();
    const { children } = productionStacks(app).node;
    expect(children.map((stack) => [Stage.of(stack), (stack as Stack).stackName])).toEqual([
      [app, 'Stator-Data'],
      [app, 'Stator-Edge'],
      [app, 'Stator-Fleet-mock'],
    ]);
  });

  it.each(['Dev', 'Data'])('lies in the zones that are named: %s', (stack) => {
    const network = { availabilityZones: ['eu-west-1a', 'eu-west-1c', 'eu-west-1d'] };
    const template = stack === 'Dev' ? devTemplate({ network }) : productionTemplates({ network }).Data!;
    const zones = Object.values(template.findResources('AWS::EC2::Subnet')).map(
      ({ Properties }) => Properties.AvailabilityZone as string,
    );
    const chosen = network.availabilityZones.slice(0, stack === 'Dev' ? 2 : 3);
    expect([...new Set(zones)]).toEqual(chosen);
  });

  it('uses a VPC of yours if the configuration names one', () => {
    const network = {
      vpc: {
        id: 'vpc-0123456789abcdef0',
        availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'],
        privateSubnetIds: ['subnet-0000000a', 'subnet-0000000b', 'subnet-0000000c'],
        privateRouteTableIds: ['rtb-a', 'rtb-b', 'rtb-c'],
      },
    };
    const own = productionTemplates({ network });
    own.Data!.resourceCountIs('AWS::EC2::VPC', 0);
    own.Data!.resourceCountIs('AWS::EC2::VPCEndpoint', 2);
    own.Edge!.hasResourceProperties('AWS::ECS::Service', {
      NetworkConfiguration: { AwsvpcConfiguration: Match.objectLike({ Subnets: ['subnet-0000000a'] }) },
    });
  });

  it.each(['Data', 'Edge', 'Fleet-mock'])('matches its snapshot: %s', (name) => {
    expect(snapshotOf(stacks[name]!)).toMatchSnapshot();
  });
});
