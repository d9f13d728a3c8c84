import { readFileSync } from 'node:fs';
import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Capture, Match, Template } from 'aws-cdk-lib/assertions';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { beforeAll, describe, expect, it } from 'vitest';
import { HTTP_FUNCTION_CHOICES, HTTP_FUNCTION_VARIABLES } from '../../functions/http/environment.ts';
import { HttpFunction, type HttpFunctionProps } from '../../infra/constructs/http-function.ts';
import { Network } from '../../infra/constructs/network.ts';
import { ServingStack, type ServingStackProps } from '../../infra/stacks/serving-stack.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { DISCOVERY_TABLE_SCHEMA } from '../../shared/discovery/index.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

interface Resource {
  readonly Type: string;
  readonly Properties: Record<string, unknown>;
}

/** The flags of `cdk.json`, so that templates here are those of a deployment. */
const { context } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { context: Record<string, unknown> };

/** What reads the fleet. */
const LOOK_UP = ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:Query'];

function synthesize(props: Partial<ServingStackProps> = {}): Template {
  const app = new App({ context });
  const httpFunctionCode = Code.fromInline('export const handler = () => {};');
  return Template.fromStack(new ServingStack(app, 'Stator', { httpFunctionCode, ...props }));
}

/** Actions by the resource they are allowed on. */
function rightsIn(template: Template, type: 'AWS::IAM::Policy' | 'AWS::IAM::ManagedPolicy'): [string, string[]][] {
  return statementsOf(template, type).map(({ Action, Resource }) => {
    const [resource] = /[A-Za-z]+(?=[0-9A-F]{8})/.exec(JSON.stringify(Resource)) ?? [''];
    return [resource, [Action].flat().sort()];
  });
}

function statementsOf(template: Template, type: 'AWS::IAM::Policy' | 'AWS::IAM::ManagedPolicy'): Statement[] {
  return Object.values(template.findResources(type)).flatMap(
    (policy) =>
      (policy as { Properties: { PolicyDocument: { Statement: Statement[] } } }).Properties.PolicyDocument.Statement,
  );
}

let template: Template;
beforeAll(() => {
  template = synthesize();
});

describe('the serving stack', () => {
  it('streams every path and method from the function through a regional API', () => {
    template.hasResourceProperties('AWS::ApiGateway::RestApi', { EndpointConfiguration: { Types: ['REGIONAL'] } });
    const methods = Object.values(template.findResources('AWS::ApiGateway::Method')) as Resource[];
    expect(methods).toHaveLength(2); // the root and everything below it
    for (const { Properties } of methods) {
      expect(Properties).toMatchObject({
        HttpMethod: 'ANY',
        Integration: { Type: 'AWS_PROXY', ResponseTransferMode: 'STREAM', TimeoutInMillis: 900_000 },
      });
      expect(JSON.stringify(Properties)).toContain('/response-streaming-invocations');
    }
    template.hasResourceProperties('AWS::ApiGateway::Resource', { PathPart: '{proxy+}' });
  });

  it('limits the rate, and leaves the headers of keys to the function, which asks for them', () => {
    const asking = Match.objectLike({ ApiKeyRequired: true });
    expect(template.findResources('AWS::ApiGateway::Method', { Properties: asking })).toEqual({});
    template.hasResourceProperties('AWS::ApiGateway::Stage', {
      MethodSettings: [Match.objectLike({ ThrottlingRateLimit: 100, ThrottlingBurstLimit: 200 })],
    });
    template.hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: Match.objectLike({ STATOR_AUTH: 'on', STATOR_KEYS_TABLE: Match.anyValue() }) },
    });
    template.hasOutput('KeysTableName', { Value: Match.anyValue() });
  });

  it('gives all frontends one secret for the names of requests, which no template shows', () => {
    const variables = new Capture();
    template.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: variables } });
    expect(JSON.stringify(variables.asObject().STATOR_ID_SECRET)).toContain('{{resolve:secretsmanager:');
    template.hasResourceProperties('AWS::SecretsManager::Secret', {
      GenerateSecretString: Match.objectLike({ PasswordLength: 64 }),
    });
  });

  it('runs the function on ARM with Node 22, with the limits of a long stream, inside private subnets', () => {
    template.hasResourceProperties('AWS::Lambda::Function', {
      Runtime: 'nodejs22.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      MemorySize: 1769,
      Timeout: 900,
      VpcConfig: { SubnetIds: [Match.anyValue(), Match.anyValue()], SecurityGroupIds: [Match.anyValue()] },
    });
    template.resourceCountIs('AWS::EC2::InternetGateway', 0);
    template.resourceCountIs('AWS::EC2::NatGateway', 0);
    template.hasResourceProperties('AWS::EC2::VPCEndpoint', { VpcEndpointType: 'Gateway' });
  });

  it('sets every variable that the function reads, and no other', () => {
    const variables = new Capture();
    template.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: variables } });
    expect(Object.keys(variables.asObject()).sort()).toEqual([...HTTP_FUNCTION_VARIABLES].sort());
  });

  it('keeps logs for a month, without a line for each start and end', () => {
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
    template.hasResourceProperties('AWS::Lambda::Function', {
      LoggingConfig: { LogFormat: 'JSON', SystemLogLevel: 'WARN', LogGroup: Match.anyValue() },
    });
  });

  it('has encrypted, restorable, on-demand tables with the keys of the discovery schema', () => {
    const { partitionKey, sortKey, ttlAttribute } = DISCOVERY_TABLE_SCHEMA;
    template.resourceCountIs('AWS::DynamoDB::Table', 4);
    template.allResourcesProperties('AWS::DynamoDB::Table', {
      KeySchema: [
        { AttributeName: partitionKey, KeyType: 'HASH' },
        { AttributeName: sortKey, KeyType: 'RANGE' },
      ],
      AttributeDefinitions: [
        { AttributeName: partitionKey, AttributeType: 'S' },
        { AttributeName: sortKey, AttributeType: 'S' },
      ],
      BillingMode: 'PAY_PER_REQUEST',
      SSESpecification: { SSEEnabled: true },
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
      TimeToLiveSpecification: { AttributeName: ttlAttribute, Enabled: true },
    });
    const streaming = template.findResources('AWS::DynamoDB::Table', {
      Properties: { StreamSpecification: { StreamViewType: 'NEW_AND_OLD_IMAGES' } },
    });
    expect(Object.keys(streaming)).toEqual([expect.stringMatching(/^Discovery/)]);
  });

  it('deletes its tables with the stack unless told to keep and protect them', () => {
    for (const table of Object.values(template.findResources('AWS::DynamoDB::Table'))) {
      expect(table).toMatchObject({ DeletionPolicy: 'Delete', Properties: { DeletionProtectionEnabled: false } });
    }
    const kept = synthesize({ removalPolicy: RemovalPolicy.RETAIN });
    for (const table of Object.values(kept.findResources('AWS::DynamoDB::Table'))) {
      expect(table).toMatchObject({ DeletionPolicy: 'Retain', Properties: { DeletionProtectionEnabled: true } });
    }
  });

  it('watches failures of the function, exhausted concurrency and server errors of the API', () => {
    for (const [namespace, metric] of [
      ['AWS/Lambda', 'Errors'],
      ['AWS/Lambda', 'Throttles'],
      ['AWS/ApiGateway', '5XXError'],
    ]) {
      template.hasResourceProperties('AWS::CloudWatch::Alarm', { Namespace: namespace, MetricName: metric });
    }
  });

  it('adds a signed, streaming function URL only on request', () => {
    template.resourceCountIs('AWS::Lambda::Url', 0);
    const withUrl = synthesize({ functionUrl: true });
    withUrl.hasResourceProperties('AWS::Lambda::Url', { AuthType: 'AWS_IAM', InvokeMode: 'RESPONSE_STREAM' });
  });

  it('reaches the internet only where NAT gateways are asked for', () => {
    const withNat = synthesize({ natGateways: 1 });
    withNat.resourceCountIs('AWS::EC2::NatGateway', 1);
    withNat.hasResourceProperties('AWS::Lambda::Function', { VpcConfig: Match.anyValue() });
  });

  describe('with NATS', () => {
    let withNats: Template;
    beforeAll(() => {
      withNats = synthesize({ nats: true, natGateways: 1 });
    });

    it('runs one server that asks for a token, and never two at a time', () => {
      withNats.hasResourceProperties('AWS::ECS::Service', {
        DesiredCount: 1,
        DeploymentConfiguration: Match.objectLike({ MinimumHealthyPercent: 0, MaximumPercent: 100 }),
      });
      const command = new Capture();
      withNats.hasResourceProperties('AWS::ECS::TaskDefinition', {
        ContainerDefinitions: [
          Match.objectLike({ Command: command, Secrets: [Match.objectLike({ Name: 'NATS_TOKEN' })] }),
        ],
      });
      expect(command.asArray().join()).toMatch(/jetstream \{[^}]*max_file_store: 30G[^}]*\}[\s\S]*token: \$NATS_TOKEN/);
    });

    it('lets only the workers reach it, and tells them where it is', () => {
      withNats.hasResourceProperties('AWS::EC2::SecurityGroupIngress', { FromPort: 4222, ToPort: 4222 });
      withNats.hasOutput('NatsServer', { Value: Match.anyValue() });
      withNats.hasOutput('EventPlane', { Value: 'nats' });
      template.hasOutput('EventPlane', { Value: 'zmq' });
    });

    it('needs a way to the internet for its image', () => {
      expect(() => synthesize({ nats: true })).toThrow(/natGateways/);
    });
  });

  describe('with resident routers', () => {
    let withRouters: Template;
    beforeAll(() => {
      withRouters = synthesize({ routerImage: 'registry.example/stator:1', nats: true, natGateways: 1 });
    });

    it('runs two containers with the role router, one of which is always up', () => {
      withRouters.hasResourceProperties('AWS::ECS::Service', {
        DesiredCount: 2,
        DeploymentConfiguration: Match.objectLike({ MinimumHealthyPercent: 100, MaximumPercent: 200 }),
      });
      withRouters.hasResourceProperties('AWS::ECS::TaskDefinition', {
        RuntimePlatform: { CpuArchitecture: 'ARM64', OperatingSystemFamily: 'LINUX' },
        ContainerDefinitions: [
          Match.objectLike({
            Image: 'registry.example/stator:1',
            Command: ['frontend'],
            Secrets: [Match.objectLike({ Name: 'NATS_AUTH_TOKEN' })],
            Environment: Match.arrayWith([
              { Name: 'STATOR_ROLES', Value: 'router' },
              { Name: 'DYN_ROUTER_MODE', Value: 'kv' },
              { Name: 'DYN_EVENT_PLANE', Value: 'nats' },
              { Name: 'DYN_TCP_RPC_PORT', Value: '8700' },
            ]),
          }),
        ],
      });
    });

    it('sets nothing that the frontend does not know', () => {
      const definitions = new Capture();
      withRouters.hasResourceProperties('AWS::ECS::TaskDefinition', {
        ContainerDefinitions: [Match.objectLike({ Name: 'router', Environment: definitions })],
      });
      const given = definitions.asArray() as { readonly Name: string; readonly Value: unknown }[];
      const texts = given.map(({ Name, Value }) => [Name, typeof Value === 'string' ? Value : 'a-name'] as const);
      const { given: known, warnings, settings } = resolveConfig('frontend', [], Object.fromEntries(texts));
      expect(warnings).toEqual([]);
      expect(known.size).toBe(given.length);
      expect(settings).toMatchObject({ roles: ['router'], routerRole: 'resident' });
    });

    it('tells the function where they are, and lets it ask in mode kv', () => {
      const variables = new Capture();
      withRouters.hasResourceProperties('AWS::Lambda::Function', { Environment: { Variables: variables } });
      expect(variables.asObject()).toMatchObject({ DYN_ROUTER_MODE: 'kv', STATOR_ROUTER_URL: expect.anything() });
      expect(JSON.stringify(variables.asObject().STATOR_ROUTER_URL)).toContain(':8700');
      expect(Object.keys(variables.asObject()).sort()).toEqual(
        [...HTTP_FUNCTION_VARIABLES, ...HTTP_FUNCTION_CHOICES].sort(),
      );
      withRouters.hasResourceProperties('AWS::ServiceDiscovery::Service', { Name: 'router' });
      withRouters.hasOutput('RouterUrl', { Value: Match.anyValue() });
    });

    it('opens their port to functions alone, and lets them reach workers and NATS', () => {
      const rules = Object.values(withRouters.findResources('AWS::EC2::SecurityGroupIngress')) as Resource[];
      const named = rules.map(({ Properties: { FromPort, GroupId, SourceSecurityGroupId } }) => {
        const [to, from] = [GroupId, SourceSecurityGroupId].map(
          (group) => JSON.stringify(group).match(/"([A-Za-z]+?)SecurityGroup/)?.[1],
        );
        return `${from} -> ${to} ${FromPort}`;
      });
      expect(named.sort()).toEqual([
        'NetworkFunction -> NetworkWorker 8800',
        'NetworkFunction -> NetworkWorker 9100',
        'NetworkFunction -> Router 8700',
        'NetworkWorker -> Nats 4222',
        'Router -> Nats 4222',
        'Router -> NetworkWorker 8800',
        'Router -> NetworkWorker 9100',
      ]);
    });

    it('lets them register, route and read the token, and nothing else', () => {
      const rights = rightsIn(withRouters, 'AWS::IAM::Policy').filter(([resource]) => /Table|Token/.test(resource));
      expect(rights).toEqual(
        expect.arrayContaining([
          ['DiscoveryTable', [...LOOK_UP, 'dynamodb:DeleteItem', 'dynamodb:UpdateItem'].sort()],
          ['RouterStateTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem']],
        ]),
      );
    });

    it.each([
      [{ natGateways: 1 }, /needs nats/],
      [{ nats: true, natGateways: 1, routerMode: 'random' }, /needs routerMode kv/],
    ])('refuses %j without what they need', (props, message) => {
      expect(() => synthesize({ routerImage: 'stator', ...props })).toThrow(message);
    });
  });

  it('matches its snapshot', () => {
    const text = JSON.stringify(template.toJSON(), undefined, 2).replaceAll(/[0-9a-f]{64}/g, 'ASSET');
    expect(text).toMatchSnapshot();
  });
});

describe('the rights in the serving stack', () => {
  it('name single actions on single resources', () => {
    const all = [...statementsOf(template, 'AWS::IAM::Policy'), ...statementsOf(template, 'AWS::IAM::ManagedPolicy')];
    for (const statement of all) {
      expect([statement.Action].flat().filter((action) => action.includes('*'))).toEqual([]);
      expect([statement.Resource].flat()).not.toContain('*');
    }
  });

  it('let the function look workers up, keep responses, log, and nothing else', () => {
    expect(rightsIn(template, 'AWS::IAM::Policy')).toEqual([
      ['HttpLogGroup', ['logs:CreateLogStream', 'logs:PutLogEvents']],
      ['DiscoveryTable', LOOK_UP],
      ['ResponsesTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query']],
      ['KeysTable', ['dynamodb:GetItem']],
    ]);
  });

  it('let workers register, container edges route and keep responses, and nothing else', () => {
    const worker = [['DiscoveryTable', [...LOOK_UP, 'dynamodb:DeleteItem', 'dynamodb:UpdateItem'].sort()]];
    const edge = [
      ['DiscoveryTable', [...LOOK_UP, 'dynamodb:DeleteItem', 'dynamodb:UpdateItem'].sort()],
      ['ResponsesTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query']],
      ['KeysTable', ['dynamodb:GetItem']],
      ['IdSecret', ['secretsmanager:DescribeSecret', 'secretsmanager:GetSecretValue']],
      ['RouterStateTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem']],
    ];
    const operator = [
      ['KeysTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:Scan', 'dynamodb:UpdateItem']],
    ];
    const rights = rightsIn(template, 'AWS::IAM::ManagedPolicy');
    expect(rights).toEqual(expect.arrayContaining([...worker, ...edge, ...operator]));
    expect(rights).toHaveLength([...worker, ...edge, ...operator].length);
  });

  it('let only this API call the function', () => {
    const permissions = Object.values(template.findResources('AWS::Lambda::Permission')) as Resource[];
    expect(permissions).toHaveLength(2);
    for (const { Properties } of permissions) {
      expect(Properties).toMatchObject({ Principal: 'apigateway.amazonaws.com', SourceArn: expect.anything() });
    }
  });

  it('open no port to the internet, and the workers only to the function', () => {
    const groups = Object.values(template.findResources('AWS::EC2::SecurityGroup')) as Resource[];
    for (const { Properties } of groups) expect(Properties.SecurityGroupIngress).toBeUndefined();
    template.resourceCountIs('AWS::EC2::SecurityGroupIngress', 2);
    for (const [FromPort, ToPort] of [
      [8800, 8863], // requests
      [9100, 9163], // files of models
    ]) {
      template.hasResourceProperties('AWS::EC2::SecurityGroupIngress', {
        FromPort,
        ToPort,
        SourceSecurityGroupId: Match.objectLike({
          'Fn::GetAtt': [Match.stringLikeRegexp('^NetworkFunction'), 'GroupId'],
        }),
      });
    }
  });
});

describe('constructs check what they are given', () => {
  const stack = (): Stack => new Stack(new App(), 'Test');

  it('refuses worker ports out of range', () => {
    expect(() => new Network(stack(), 'Network', { workerPortFirst: 80 })).toThrow(/workerPortFirst/);
    expect(() => new Network(stack(), 'Network', { workerPortFirst: 65_500, workerPortCount: 64 })).toThrow(/65563/);
  });

  it.each([
    [{ timeout: Duration.minutes(16) }, /between 30 and 900/],
    [{ timeout: Duration.seconds(10) }, /between 30 and 900/],
    [{ memorySizeMb: 128 }, /memorySizeMb/],
  ])('refuses %j', (props: Partial<HttpFunctionProps>, message) => {
    const scope = stack();
    const environment = Object.fromEntries(
      HTTP_FUNCTION_VARIABLES.map((name) => [name, 'x']),
    ) as HttpFunctionProps['environment'];
    const given = { code: Code.fromInline('x'), network: new Network(scope, 'Network'), environment, ...props };
    expect(() => new HttpFunction(scope, 'Http', given)).toThrow(message);
  });
});
