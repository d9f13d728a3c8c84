import { describe, expect, it } from 'vitest';
import { DEPLOYMENTS, deploymentOf } from './deployments.ts';

/** Addresses of registries that every task of the account may pull from as often as it starts; `registry.example` is the tests' own. */
const REGISTRIES = /^(public\.ecr\.aws|\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com|registry\.example)\//;

/** Properties that give a resource a name which one of the account can have only once. */
const NAMES = ['TableName', 'BucketName', 'Name', 'LogGroupName', 'FunctionName', 'QueueName', 'RoleName', 'AliasName'];
/** Of these, what some type needs: the name of what it belongs to. */
const BELONGS_TO: Readonly<Record<string, string>> = { 'AWS::Lambda::Version': 'FunctionName' };

/** Every table of the deployment's account in its region, as templates have it. */
const TABLES_OF_THE_ACCOUNT =
  '{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":dynamodb:",{"Ref":"AWS::Region"},":",{"Ref":"AWS::AccountId"},":*"]]}';

/** What the endpoints of DynamoDB let through. */
function statementsOfTables(resources: ReturnType<typeof deploymentOf>) {
  return resources
    .filter(([, { Type }]) => Type === 'AWS::EC2::VPCEndpoint')
    .filter(([, { Properties }]) => JSON.stringify(Properties.ServiceName).includes('.dynamodb'))
    .flatMap(
      ([, { Properties }]) =>
        (Properties.PolicyDocument as { Statement: { readonly Resource: unknown }[] } | undefined)?.Statement ?? [],
    );
}

describe.each(DEPLOYMENTS)('what is deployed: %s', (name) => {
  const resources = deploymentOf(name);
  const of = (type: string) => resources.filter(([, { Type }]) => Type === type);

  it('pulls images from registries of AWS alone: others limit the pulls of an address', () => {
    const images = of('AWS::ECS::TaskDefinition').flatMap(([, { Properties }]) =>
      (Properties.ContainerDefinitions as { Image: unknown }[]).map(({ Image }) => Image),
    );
    expect(images.length).toBeGreaterThan(0);
    for (const image of images) expect(image).toMatch(REGISTRIES);
  });

  it('runs no container as root but what opens a disk to the next one, and ends', () => {
    const containers = of('AWS::ECS::TaskDefinition').flatMap(
      ([, { Properties }]) =>
        Properties.ContainerDefinitions as { Name: string; User?: string; Essential: boolean; Command: string[] }[],
    );
    const roots = containers.filter(({ User = 'root' }) => /^(0|root)\b/.test(User));
    expect(roots.length).toBe(name === 'dev' ? 1 : 3);
    for (const { Name, Essential, Command } of roots)
      expect({ Name, Essential, Command }).toEqual({ Name: 'nats-disk', Essential: false, Command: ['1777', '/data'] });
  });

  it('leaves the number of tasks of a scaled service to its scaling', () => {
    const scaled = of('AWS::ApplicationAutoScaling::ScalableTarget').map(([, { Properties }]) =>
      JSON.stringify(Properties.ResourceId),
    );
    expect(scaled).toHaveLength(name === 'dev' ? 0 : 1);
    for (const [id, { Properties }] of of('AWS::ECS::Service')) {
      const isScaled = scaled.some((resource) => resource.includes(`"${id}"`));
      expect({ id, hasCount: Properties.DesiredCount !== undefined }).toEqual({ id, hasCount: !isScaled });
    }
  });

  it('names its API after its stack, because metrics of APIs differ only by name', () => {
    const names = of('AWS::ApiGateway::RestApi').map(([, { Properties }]) => Properties.Name);
    expect(names).toEqual([name === 'dev' ? 'Stator-Api' : 'Stator-Edge-Api']);
    const watched = of('AWS::CloudWatch::Alarm').flatMap(([, { Properties }]) =>
      ((Properties.Dimensions ?? []) as { Name: string; Value: unknown }[])
        .filter(({ Name }) => Name === 'ApiName')
        .map(({ Value }) => Value),
    );
    expect(new Set(watched)).toEqual(new Set(names));
  });

  it('keeps what must outlast its stack only once it was made: a first deployment that fails leaves nothing', () => {
    const kept = resources.filter(([, { DeletionPolicy }]) => DeletionPolicy?.startsWith('Retain'));
    expect(kept.map(([, { DeletionPolicy }]) => DeletionPolicy)).not.toContain('Retain');
    const outlasting = kept.filter(([, { Type }]) => Type !== 'AWS::Lambda::Version'); // versions go with their function
    expect(outlasting.length > 0).toBe(name !== 'dev');
  });

  it('gives no name of its own to what outlasts its stack: a second deployment could not make it again', () => {
    const kept = resources.filter(
      ([, { DeletionPolicy, UpdateReplacePolicy }]) =>
        DeletionPolicy?.startsWith('Retain') || UpdateReplacePolicy?.startsWith('Retain'),
    );
    const named = kept.flatMap(([id, { Type, Properties }]) =>
      NAMES.filter((property) => Properties[property] !== undefined && property !== BELONGS_TO[Type])
        .filter((property) => !JSON.stringify(Properties[property]).includes('"AWS::StackId"')) // another one each time
        .map((property) => `${id}: ${property}`),
    );
    expect(named).toEqual([]);
  });

  it('keeps the releases of a function: streams end on theirs, and an alias can go back to one', () => {
    const versions = of('AWS::Lambda::Version').map(([, { DeletionPolicy, UpdateReplacePolicy }]) => ({
      DeletionPolicy,
      UpdateReplacePolicy,
    }));
    expect(versions).toEqual([{ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' }]);
  });

  it('keeps logs as long as they are kept, whatever becomes of what wrote them, in production', () => {
    const policies = of('AWS::Logs::LogGroup').map(([, { DeletionPolicy }]) => DeletionPolicy);
    expect(policies.length).toBeGreaterThan(0);
    expect(new Set(policies)).toEqual(new Set([name === 'dev' ? 'Delete' : 'RetainExceptOnCreate']));
  });

  it('protects load balancers from being deleted, has them log, and gives their zones back what they lost', () => {
    const told = of('AWS::ElasticLoadBalancingV2::LoadBalancer').map(([, { Properties }]) =>
      (Properties.LoadBalancerAttributes as { Key: string; Value: unknown }[])
        .filter(({ Key, Value }) => /deletion_protection|access_logs.s3.enabled/.test(Key) && Value === 'true')
        .map(({ Key }) => Key)
        .sort(),
    );
    expect(told).toEqual(name === 'everything' ? [['access_logs.s3.enabled', 'deletion_protection.enabled']] : []);
    const balanced = of('AWS::ECS::Service').filter(
      ([, { Properties }]) => Properties.AvailabilityZoneRebalancing === 'ENABLED',
    );
    expect(balanced.map(([id]) => id.replace(/[0-9A-F]{8}$/, ''))).toEqual(name === 'dev' ? [] : ['EdgeService']);
  });

  it('has no stream of a table without a reader', () => {
    const read = JSON.stringify(of('AWS::Lambda::EventSourceMapping').map(([, { Properties }]) => Properties));
    const unread = of('AWS::DynamoDB::Table').filter(
      ([id, { Properties }]) =>
        Properties.StreamSpecification !== undefined && !read.includes(`{"Fn::GetAtt":["${id}","StreamArn"]}`),
    );
    expect(unread.map(([id]) => id)).toEqual([]);
  });

  it('answers under its own name alone where it has one', () => {
    const apis = of('AWS::ApiGateway::RestApi').map(
      ([, { Properties }]) => Properties.DisableExecuteApiEndpoint === true,
    );
    expect(apis).toEqual([name === 'everything']);
  });

  it('lets no process in its network reach tables of another account', () => {
    const policies = of('AWS::EC2::VPCEndpoint')
      .filter(([, { Properties }]) => JSON.stringify(Properties.ServiceName).includes('.dynamodb'))
      .map(([, { Properties }]) => JSON.stringify(Properties.PolicyDocument));
    expect(policies).toEqual([expect.stringContaining('"aws:PrincipalAccount":{"Ref":"AWS::AccountId"}')]);
    const [statement, ...others] = statementsOfTables(resources);
    expect(others).toEqual([]);
    expect(statement).toMatchObject({
      Effect: 'Allow',
      Action: 'dynamodb:*',
      Condition: { StringEquals: { 'aws:PrincipalAccount': { Ref: 'AWS::AccountId' } } },
    });
    expect(JSON.stringify(statement?.Resource)).toBe(TABLES_OF_THE_ACCOUNT);
  });

  it('speaks no older TLS than 1.2 under names of its own', () => {
    const policies = [
      ...of('AWS::ApiGateway::DomainName').map(([, { Properties }]) => Properties.SecurityPolicy),
      ...of('AWS::ElasticLoadBalancingV2::Listener').map(([, { Properties }]) => Properties.SslPolicy),
    ];
    const expected = ['TLS_1_2', expect.stringMatching(/^ELBSecurityPolicy-TLS13-1-2-/)];
    expect(policies).toEqual(name === 'everything' ? expected : []);
  });

  it('writes down who connected to whom where it is asked for', () => {
    expect(of('AWS::EC2::FlowLog')).toHaveLength(name === 'everything' ? 1 : 0);
  });

  it('marks what refers to another stack, else a table that is made anew there would change nothing here', () => {
    const marked = resources.map(([id, { Metadata, ...resource }]) => {
      const text = JSON.stringify(resource);
      const stacks = [...text.matchAll(/"Fn::GetStackOutput":\{"StackName":"([^"]+)"/g)].map(([, stack]) => stack);
      return {
        id,
        stacks: [...new Set(stacks)].sort(),
        marks: Object.keys(Metadata?.['stator:references'] ?? {}).sort(),
      };
    });
    expect(marked.filter(({ stacks, marks }) => stacks.join() !== marks.join())).toEqual([]);
    expect(marked.some(({ marks }) => marks.length > 0)).toBe(name !== 'dev');
  });

  it('keeps connections open longer than the load balancer in front: else it sends requests into closed ones', () => {
    const idles = of('AWS::ElasticLoadBalancingV2::LoadBalancer').flatMap(([, { Properties }]) =>
      (Properties.LoadBalancerAttributes as { Key: string; Value: string }[])
        .filter(({ Key }) => Key === 'idle_timeout.timeout_seconds')
        .map(({ Value }) => Number(Value)),
    );
    const keepAlives = of('AWS::ECS::TaskDefinition').flatMap(([, { Properties }]) =>
      (Properties.ContainerDefinitions as { Environment?: { Name: string; Value: string }[] }[]).flatMap(
        ({ Environment = [] }) =>
          Environment.filter(({ Name }) => Name === 'STATOR_HTTP_KEEP_ALIVE_SECS').map(({ Value }) => Number(Value)),
      ),
    );
    expect({ idles, keepAlives }).toEqual(
      name === 'everything' ? { idles: [4000], keepAlives: [4060] } : { idles: [], keepAlives: [] },
    );
  });
});

describe('a VPC of yours', () => {
  it('gets an endpoint of DynamoDB that leads to tables of the account alone, too', () => {
    const vpc = {
      id: 'vpc-0123456789abcdef0',
      availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'],
      privateSubnetIds: ['subnet-0000000a', 'subnet-0000000b', 'subnet-0000000c'],
      privateRouteTableIds: ['rtb-a', 'rtb-b', 'rtb-c'],
    };
    const statements = statementsOfTables(deploymentOf('production', { network: { vpc } }));
    expect(statements.map(({ Resource }) => JSON.stringify(Resource))).toEqual([TABLES_OF_THE_ACCOUNT]);
  });
});
