import { Annotations, Capture, Match, Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { HTTP_FUNCTION_CHOICES, HTTP_FUNCTION_VARIABLES } from '../../functions/http/environment.ts';
import { type Command, resolveConfig } from '../../shared/config/index.ts';
import { TABLE_SCHEMA } from '../support/index.ts';
import { devStack, devTemplate, openApp, type Resource, rightsOf, snapshotOf, statementsOf } from './templates.ts';

interface Container {
  readonly Name: string;
  readonly Command: readonly string[];
  readonly Environment: readonly { readonly Name: string; readonly Value: unknown }[];
  readonly Secrets: readonly { readonly Name: string }[];
  readonly ReadonlyRootFilesystem: boolean;
  readonly User?: string;
}

const LOOK_UP = ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:Query'];
const REGISTER = [...LOOK_UP, 'dynamodb:DeleteItem', 'dynamodb:UpdateItem'].sort();
const KEEP = ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'];

let template: Template;
beforeAll(() => {
  template = devTemplate();
});

function containers(): readonly Container[] {
  const definitions = new Capture();
  template.hasResourceProperties('AWS::ECS::TaskDefinition', { ContainerDefinitions: definitions });
  return definitions.asArray() as Container[];
}

function functionVariables(of = template): Record<string, unknown> {
  const variables = new Capture();
  of.hasResourceProperties('AWS::Lambda::Function', {
    Runtime: 'nodejs22.x',
    Environment: { Variables: variables },
  });
  return variables.asObject();
}

describe('the dev stack', () => {
  it('streams every path and method from the live release of the function through a regional API', () => {
    template.hasResourceProperties('AWS::ApiGateway::RestApi', { EndpointConfiguration: { Types: ['REGIONAL'] } });
    const methods = Object.values(template.findResources('AWS::ApiGateway::Method')) as Resource[];
    expect(methods).toHaveLength(2); // the root and everything below it
    for (const { Properties } of methods) {
      expect(Properties).toMatchObject({
        HttpMethod: 'ANY',
        Integration: { Type: 'AWS_PROXY', ResponseTransferMode: 'STREAM', TimeoutInMillis: 900_000 },
      });
      expect(JSON.stringify(Properties)).toContain('/response-streaming-invocations');
      expect(JSON.stringify(Properties)).toMatch(/"Ref":"FrontHttpLive/);
    }
    template.hasResourceProperties('AWS::Lambda::Alias', { Name: 'live' });
  });

  it('asks for keys in the function alone, so that stock clients are served, and says how to make one', () => {
    template.resourceCountIs('AWS::ApiGateway::ApiKey', 0);
    template.resourceCountIs('AWS::ApiGateway::UsagePlan', 0);
    template.allResourcesProperties('AWS::ApiGateway::Method', { ApiKeyRequired: Match.absent() });
    expect(functionVariables()).toMatchObject({ STATOR_AUTH: 'on', STATOR_KEYS_TABLE: expect.anything() });
    const [output] = Object.values(template.findOutputs('CreateKeyCommand'));
    expect(JSON.stringify(output?.Value)).toMatch(/STATOR_KEYS_TABLE=.*npx stator keys create --name first/);
  });

  it.each([
    ['REQUEST_TOO_LARGE', '413', 'request_too_large'],
    ['THROTTLED', '429', 'rate_limit_exceeded'],
    ['WAF_FILTERED', '403', 'insufficient_permissions'],
    ['INTEGRATION_TIMEOUT', '504', 'deadline_exceeded'],
    ['INTEGRATION_FAILURE', '504', 'deadline_exceeded'],
  ])('answers %s with %s and the body that OpenAI clients read', (ResponseType, StatusCode, code) => {
    const body = new Capture();
    template.hasResourceProperties('AWS::ApiGateway::GatewayResponse', {
      ResponseType,
      StatusCode,
      ResponseTemplates: { 'application/json': body },
    });
    expect(JSON.parse(body.asString())).toEqual({
      error: { message: expect.any(String), type: expect.any(String), param: null, code },
    });
  });

  it('sets every variable that the function reads, and none that it does not know', () => {
    const given = Object.keys(functionVariables()).sort();
    const chosen = ['STATOR_HOLD_TIMEOUT', 'STATOR_MAX_TOKENS_DEFAULT'];
    expect(given).toEqual([...HTTP_FUNCTION_VARIABLES, ...chosen].sort());
    expect([...HTTP_FUNCTION_CHOICES]).toEqual(expect.arrayContaining(chosen));
  });

  it('shows no secret in the template', () => {
    expect(JSON.stringify(template.toJSON())).not.toContain('{{resolve:secretsmanager:');
    template.resourceCountIs('AWS::SecretsManager::Secret', 4);
  });

  it('keeps streams alive every ten seconds, and holds requests until a worker comes', () => {
    expect(functionVariables()).toMatchObject({
      DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS: '10000',
      STATOR_HOLD_TIMEOUT: '120',
    });
    const refusing = devTemplate({ limits: { holdSecs: 0 } });
    expect(functionVariables(refusing)).not.toHaveProperty('STATOR_HOLD_TIMEOUT');
  });

  it('has one task that anybody may try out for little: no NAT gateway, load balancer or interface endpoint', () => {
    template.hasResourceProperties('AWS::ECS::Service', {
      DesiredCount: 1,
      NetworkConfiguration: { AwsvpcConfiguration: Match.objectLike({ AssignPublicIp: 'ENABLED' }) },
    });
    template.hasResourceProperties('AWS::ECS::TaskDefinition', { Cpu: '512', Memory: '1024' });
    for (const type of ['AWS::EC2::NatGateway', 'AWS::ElasticLoadBalancingV2::LoadBalancer']) {
      template.resourceCountIs(type, 0);
    }
    template.allResourcesProperties('AWS::EC2::VPCEndpoint', { VpcEndpointType: 'Gateway' });
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 2);
  });

  it('runs an edge, NATS and two mock workers in it, on read-only file systems and with passwords as secrets', () => {
    const all = containers();
    expect(all.map(({ Name }) => Name).sort()).toEqual(['edge', 'nats', 'nats-disk', 'worker-0', 'worker-1']);
    for (const { ReadonlyRootFilesystem } of all) expect(ReadonlyRootFilesystem).toBe(true);
    for (const { Name, Secrets } of all.filter(({ Name }) => !Name.startsWith('nats'))) {
      const rotated = ['STATOR_PLANE_TOKEN', ...(Name === 'edge' ? ['STATOR_ID_SECRET'] : [])];
      const names = rotated.flatMap((name) => [name, `${name}_PREVIOUS`]);
      expect(Secrets.map((secret) => secret.Name).sort()).toEqual(
        ['NATS_AUTH_USERNAME', 'NATS_AUTH_PASSWORD', ...names].sort(),
      );
    }
  });

  it.each(['edge', 'worker-0'])('sets nothing in %s that it does not know', (name) => {
    const container = containers().find(({ Name }) => Name === name);
    const env = Object.fromEntries(
      (container?.Environment ?? []).map(({ Name, Value }) => [Name, typeof Value === 'string' ? Value : 'a-name']),
    );
    const [command, ...argv] = container?.Command ?? [];
    const token = { STATOR_PLANE_TOKEN: 't'.repeat(64), STATOR_PLANE_TOKEN_PREVIOUS: 'none' };
    const secrets = { ...token, NATS_AUTH_USERNAME: 'u', NATS_AUTH_PASSWORD: 'p' };
    const { given, warnings } = resolveConfig(command as Command, argv, { ...env, ...secrets });
    expect(warnings).toEqual([]);
    expect(given.size).toBe(Object.keys(env).length + argv.length + Object.keys(secrets).length);
  });

  it('has encrypted, restorable, on-demand tables with the keys of the discovery schema', () => {
    const { partitionKey, sortKey, ttlAttribute } = TABLE_SCHEMA;
    template.resourceCountIs('AWS::DynamoDB::Table', 4);
    template.allResourcesProperties('AWS::DynamoDB::Table', {
      KeySchema: [
        { AttributeName: partitionKey, KeyType: 'HASH' },
        { AttributeName: sortKey, KeyType: 'RANGE' },
      ],
      BillingMode: 'PAY_PER_REQUEST',
      SSESpecification: { SSEEnabled: true },
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
      TimeToLiveSpecification: { AttributeName: ttlAttribute, Enabled: true },
    });
  });

  it('keeps API keys in a table that can have replicas in other regions, and nothing else in one', () => {
    const { partitionKey, sortKey, ttlAttribute } = TABLE_SCHEMA;
    template.resourceCountIs('AWS::DynamoDB::GlobalTable', 1);
    template.hasResourceProperties('AWS::DynamoDB::GlobalTable', {
      KeySchema: [
        { AttributeName: partitionKey, KeyType: 'HASH' },
        { AttributeName: sortKey, KeyType: 'RANGE' },
      ],
      BillingMode: 'PAY_PER_REQUEST',
      SSESpecification: { SSEEnabled: true, SSEType: 'KMS' },
      TimeToLiveSpecification: { AttributeName: ttlAttribute, Enabled: true },
      Replicas: [
        {
          Region: { Ref: 'AWS::Region' },
          DeletionProtectionEnabled: false,
          PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
        },
      ],
    });
    const [id] = Object.keys(template.findResources('AWS::DynamoDB::GlobalTable'));
    expect(functionVariables().STATOR_KEYS_TABLE).toEqual({ Ref: id });
  });

  it('leaves nothing behind: tables and secrets go, and the bucket is emptied before it goes', () => {
    for (const type of [
      'AWS::DynamoDB::Table',
      'AWS::DynamoDB::GlobalTable',
      'AWS::S3::Bucket',
      'AWS::SecretsManager::Secret',
      'AWS::Logs::LogGroup',
    ]) {
      template.allResources(type, { DeletionPolicy: 'Delete' });
    }
    template.resourceCountIs('Custom::S3AutoDeleteObjects', 1);
  });

  it('encrypts the bucket, and refuses reads in clear or from outside', () => {
    template.hasResourceProperties('AWS::S3::Bucket', {
      BucketEncryption: Match.anyValue(),
      PublicAccessBlockConfiguration: { BlockPublicAcls: true, RestrictPublicBuckets: true },
    });
  });

  it('keeps logs for a month', () => {
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
    const week = devTemplate({ logRetentionDays: 7 });
    week.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 7 });
  });

  it('refuses more workers than one task holds, with the field of the file', () => {
    const mock = { kind: 'mock', model: 'stator-mini', workers: 9 } as const;
    expect(() => devTemplate({ fleets: { mock } })).toThrow(
      'fleets.mock.workers: 9: allowed in dev are 0 to 8, as one task holds them all',
    );
  });

  it('adds a signed function URL, a firewall and a name only where they are asked for', () => {
    for (const type of ['AWS::Lambda::Url', 'AWS::WAFv2::WebACL', 'AWS::ApiGateway::DomainName']) {
      template.resourceCountIs(type, 0);
    }
    const all = devTemplate({
      edges: { function: { url: true } },
      limits: { requestsPerAddress: 2000 },
      domain: {
        name: 'llm.example.com',
        certificateArn: 'arn:aws:acm:eu-west-1:123456789012:certificate/a',
        hostedZone: { id: 'Z1', name: 'example.com' },
      },
    });
    all.hasResourceProperties('AWS::Lambda::Url', { AuthType: 'AWS_IAM', InvokeMode: 'RESPONSE_STREAM' });
    all.resourceCountIs('AWS::WAFv2::WebACLAssociation', 1);
    all.hasResourceProperties('AWS::ApiGateway::DomainName', { DomainName: 'llm.example.com' });
    all.hasResourceProperties('AWS::Route53::RecordSet', { Name: 'llm.example.com.' });
    all.hasOutput('BaseUrl', { Value: 'https://llm.example.com/v1' });
  });

  it('sends its alarms to a topic, and each names what to read', () => {
    const topicArn = 'arn:aws:sns:eu-west-1:123456789012:oncall';
    const alarms = Object.values(devTemplate({ alarms: { topicArn } }).findResources('AWS::CloudWatch::Alarm'));
    expect(alarms.length).toBeGreaterThanOrEqual(5);
    for (const { Properties } of alarms) {
      expect(Properties.AlarmActions).toEqual([topicArn]);
      expect(Properties.AlarmDescription).toMatch(/docs\/operations\.md#[a-z0-9-]+$/);
    }
  });

  it('names what it does without, and pulls an image from a private registry of ECR with the rights for that repository', () => {
    const second = { kind: 'mock' as const, model: 'stator-mini' };
    const stack = devStack(openApp(), {
      fleets: { mock: second, second },
      images: { edge: '123456789012.dkr.ecr.eu-west-1.amazonaws.com/mine:1' },
    });
    Annotations.fromStack(stack).hasWarning('*', Match.stringLikeRegexp('^fleets\\.second: dev does without it'));
    const statements = statementsOf(Template.fromStack(stack), /ExecutionRole/);
    const pull = statements.filter(({ Action }) => [Action].flat().includes('ecr:BatchGetImage'));
    expect(pull.map(({ Resource }) => JSON.stringify(Resource))).toEqual([
      expect.stringMatching(/:ecr:eu-west-1:123456789012:repository\/mine"/),
    ]);
  });

  it('matches its snapshot', () => {
    expect(snapshotOf(template)).toMatchSnapshot();
  });
});

describe('the rights in the dev stack', () => {
  it('name single actions on single resources', () => {
    const wide = ['ecr:GetAuthorizationToken', 'ecs:ListServices']; // know no narrower resource; the second has a condition
    const own = statementsOf(template).filter(
      ({ Effect, Action }) => Effect === 'Allow' && !wide.includes(String(Action)),
    );
    for (const statement of own) {
      expect([statement.Action].flat().filter((action) => action.includes('*'))).toEqual([]);
      expect([statement.Resource].flat()).not.toContain('*');
    }
  });

  it('let who rotates secrets change those of the fleet, and restart services of its cluster', () => {
    const rotator = statementsOf(template, /^RotatorPolicy/);
    const secrets = rotator.filter(({ Action }) => JSON.stringify(Action).includes('secretsmanager'));
    expect(new Set(secrets.flatMap(({ Action }) => Action))).toEqual(
      new Set(
        ['GetSecretValue', 'DescribeSecret', 'PutSecretValue', 'UpdateSecret', 'UpdateSecretVersionStage'].map(
          (each) => `secretsmanager:${each}`,
        ),
      ),
    );
    for (const { Resource } of secrets) expect(JSON.stringify(Resource)).toContain('StoreSecrets');
    const [listing, restarting] = rotator.slice(-2);
    expect(listing).toMatchObject({
      Action: 'ecs:ListServices',
      Condition: { ArnEquals: { 'ecs:cluster': { 'Fn::GetAtt': [expect.stringMatching(/^TaskCluster/), 'Arn'] } } },
    });
    expect(restarting?.Action).toEqual(['ecs:DescribeServices', 'ecs:UpdateService']);
    expect(JSON.stringify(restarting?.Resource)).toMatch(/:service\/.*TaskCluster.*\/\*/);
    const [output] = Object.values(template.findOutputs('RotateSecretsCommand'));
    expect(JSON.stringify(output?.Value)).toMatch(
      /npx stator secrets rotate --cluster .*--plane-token .*PlaneToken.*--id-secret .*IdSecret.*--nats .*NatsWorker.*--nats .*NatsRouter/,
    );
    const part = { Key: 'stator:part', Value: 'all' };
    template.hasResourceProperties('AWS::ECS::Service', { Tags: Match.arrayWith([part]) });
  });

  it('let the function look workers and keys up, keep responses, fetch models, log, and nothing else', () => {
    expect(rightsOf(template, /^FrontHttpRole/)).toEqual([
      ['FrontHttpLogGroup', ['logs:CreateLogStream', 'logs:PutLogEvents']],
      ['StoreDiscoveryTable', LOOK_UP],
      ['StoreResponsesTable', KEEP],
      ['StoreApiKeysTable', ['dynamodb:GetItem']],
      ['StoreArtifactsBucket', ['s3:GetObject']],
    ]);
  });

  it('let the task register and route, and an operator make keys and push models', () => {
    expect(rightsOf(template, /^TaskTaskRole/)).toEqual([
      ['StorePassedSecretsTable', ['dynamodb:UpdateItem']],
      ['StoreDiscoveryTable', REGISTER],
      ['StoreRouterStateTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem']],
    ]);
    expect(rightsOf(template, /^OperatorPolicy/)).toEqual([
      ['StoreApiKeysTable', ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:Scan', 'dynamodb:UpdateItem']],
      ['StoreArtifactsBucket', ['s3:GetObject', 's3:PutObject']],
      ['StoreArtifactsBucket', ['s3:ListBucket']],
    ]);
  });

  it('open no port to the internet, and the task to the function alone', () => {
    for (const { Properties } of Object.values(template.findResources('AWS::EC2::SecurityGroup'))) {
      expect(Properties.SecurityGroupIngress).toBeUndefined();
    }
    const rules = Object.values(template.findResources('AWS::EC2::SecurityGroupIngress')) as Resource[];
    expect(rules).toHaveLength(2);
    for (const { Properties } of rules) {
      expect(JSON.stringify(Properties.SourceSecurityGroupId)).toContain('NetworkFunctionSecurityGroup');
    }
  });
});
