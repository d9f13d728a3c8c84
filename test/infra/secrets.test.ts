import { describe, expect, it } from 'vitest';
import { TABLE } from '../../shared/config/table.ts';
import { DEPLOYMENTS, type Deployment, EVERYTHING } from './deployments.ts';
import { devTemplate, productionTemplates, type Resource, statementsOf } from './templates.ts';

const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';
/** Everything, with a key and a certificate of yours. */
const KEYED = {
  ...EVERYTHING,
  nats: { ...EVERYTHING.nats, tlsSecretArn: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:tls-abcdef' },
  encryption: { keyArn: KEY },
} as const;

type Variables = Readonly<Record<string, unknown>>;

/** Templates of a deployment. */
function templatesOf(name: Deployment) {
  if (name === 'dev') return [devTemplate()];
  return Object.values(productionTemplates(name === 'everything' ? KEYED : {}));
}

/** Variables by what they are given to, of functions and containers. */
function environmentsIn(
  resources: readonly (readonly [string, Resource])[],
): readonly (readonly [string, Variables])[] {
  return resources.flatMap(([id, { Type, Properties }]) => {
    if (Type === 'AWS::Lambda::Function') {
      const { Variables = {} } = (Properties.Environment ?? {}) as { readonly Variables?: Variables };
      return [[id, Variables] as const];
    }
    if (Type !== 'AWS::ECS::TaskDefinition') return [];
    const containers = Properties.ContainerDefinitions as {
      Name: string;
      Environment?: { Name: string; Value: unknown }[];
    }[];
    return containers.map(({ Name, Environment = [] }) => {
      const variables = Object.fromEntries(Environment.map((each) => [each.Name, each.Value]));
      return [`${id} ${Name}`, variables] as const;
    });
  });
}

const MANAGED = 'AWS::IAM::ManagedPolicy';
type Statements = readonly { readonly Action: string | readonly string[]; readonly Resource: unknown }[];
const statementsIn = ({ Statement }: { Statement: Statements }): Statements => Statement;

/** By what somebody may do to which of the things that a key of yours encrypts: what they need to be allowed on the key. */
const KEY_RIGHTS: readonly (readonly [action: RegExp, resource: RegExp, rights: readonly string[]])[] = [
  [/^secretsmanager:GetSecretValue$/, /StoreSecrets/, ['kms:Decrypt']],
  [/^secretsmanager:PutSecretValue$/, /StoreSecrets/, ['kms:Decrypt', 'kms:GenerateDataKey']],
  [/^dynamodb:/, /Store\w+Table/, ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey']],
  [/^s3:GetObject$/, /StoreArtifacts/, ['kms:Decrypt']],
  [/^s3:PutObject$/, /StoreArtifacts/, ['kms:Decrypt', 'kms:GenerateDataKey*']],
];

function keyRightsFor(statements: Statements): readonly string[] {
  const rights = statements.flatMap(({ Action, Resource }) =>
    KEY_RIGHTS.flatMap(([action, resource, needed]) =>
      resource.test(JSON.stringify(Resource)) && [Action].flat().some((each) => action.test(String(each)))
        ? needed
        : [],
    ),
  );
  return [...new Set(rights)];
}

const SECRET = new Set([...TABLE.values()].filter(({ type }) => type.isSecret).flatMap(({ env }) => env));

describe.each(DEPLOYMENTS)('the secrets of %s', (name) => {
  const templates = templatesOf(name);
  const resources = templates.flatMap((template) =>
    Object.entries((template.toJSON() as { Resources: Record<string, Resource> }).Resources),
  );
  const of = (type: string) => resources.filter(([, { Type }]) => Type === type);

  it('are in no variable that is shown with the configuration of a function or a container', () => {
    const environments = environmentsIn(resources);
    expect(environments.length).toBeGreaterThan(3);
    for (const [owner, variables] of environments) {
      const shown = Object.keys(variables).filter((variable) => SECRET.has(variable) || /PASSWORD/.test(variable));
      expect({ owner, shown }).toEqual({ owner, shown: [] });
      expect(JSON.stringify(variables)).not.toMatch(/\{\{resolve:/);
    }
  });

  it('are resolved by no template at all', () => {
    expect(JSON.stringify(resources)).not.toMatch(/\{\{resolve:(secretsmanager|ssm-secure)/);
  });

  it('reach the function through a table that its policy opens to edges and functions of the deployment alone', () => {
    const [[id, table]] = of('AWS::DynamoDB::Table').filter(([, { Properties }]) => Properties.ResourcePolicy) as [
      [string, Resource],
    ];
    expect(id).toMatch(/^StorePassedSecretsTable/);
    const { PolicyDocument } = table.Properties.ResourcePolicy as { PolicyDocument: { Statement: object[] } };
    const deployment = name === 'dev' ? 'Stator' : 'Stator-Data';
    expect(PolicyDocument.Statement).toEqual([
      expect.objectContaining({
        Effect: 'Deny',
        Principal: { AWS: '*' },
        Action: expect.arrayContaining([
          'dynamodb:GetItem',
          'dynamodb:Scan',
          'dynamodb:PartiQLSelect',
          'dynamodb:PutItem',
          // What tells of an item without reading it, and what copies a table to where this policy does not hold.
          'dynamodb:ConditionCheckItem',
          'dynamodb:ExportTableToPointInTime',
          'dynamodb:RestoreTableToPointInTime',
          'dynamodb:CreateBackup',
          'dynamodb:EnableKinesisStreamingDestination',
        ]),
        Condition: { StringNotEquals: { 'aws:PrincipalTag/stator:secrets': deployment } },
      }),
    ]);
    const tagged = of('AWS::IAM::Role').filter(([, { Properties }]) =>
      ((Properties.Tags ?? []) as { Key: string; Value: string }[]).some(
        ({ Key, Value }) => Key === 'stator:secrets' && Value === deployment,
      ),
    );
    const admitted = name === 'dev' ? ['FrontHttpRole', 'TaskTaskRole'] : ['EdgeTaskTaskRole', 'FrontHttpRole'];
    expect(tagged.map(([role]) => role.replace(/[0-9A-F]{8}$/, '')).sort()).toEqual(admitted);
    const actionsOf = (role: RegExp) =>
      templates
        .flatMap((template) => statementsOf(template, role))
        .filter(({ Resource }) => JSON.stringify(Resource).includes('StorePassedSecrets'))
        .flatMap(({ Action }) => Action);
    expect(actionsOf(/^FrontHttpRole/)).toEqual(['dynamodb:GetItem']);
    expect(actionsOf(name === 'dev' ? /^TaskTaskRole/ : /^EdgeTaskTaskRole/)).toEqual(['dynamodb:UpdateItem']);
    expect(actionsOf(/^(?!FrontHttpRole|TaskTaskRole|EdgeTaskTaskRole)/)).toEqual([]);
    const ofFunction = templates.flatMap((template) => statementsOf(template, /^FrontHttpRole/));
    expect(JSON.stringify(ofFunction)).not.toContain('secretsmanager');
  });

  it('are made as JSON with an empty previous one', () => {
    const made = of('AWS::SecretsManager::Secret').flatMap(([id, { Properties }]) => {
      const { SecretStringTemplate: fields, GenerateStringKey } = Properties.GenerateSecretString as Record<
        string,
        string
      >;
      return fields === undefined ? [] : [[id.replace(/[0-9A-F]{8}$/, ''), GenerateStringKey, JSON.parse(fields)]];
    });
    const user = (username: string) => ({
      username,
      previous_username: `${username}-before`,
      previous_password: 'none',
    });
    expect(made).toEqual([
      ['StoreSecretsPlaneToken', 'current', { previous: 'none' }],
      ['StoreSecretsIdSecret', 'current', { previous: 'none' }],
      ['StoreSecretsNatsWorker', 'password', user('worker')],
      ['StoreSecretsNatsRouter', 'password', user('router')],
    ]);
  });

  it('are encrypted with a key of yours where there is one, as are tables and bucket', () => {
    const keys = [
      ...of('AWS::SecretsManager::Secret')
        .filter(([id]) => id.startsWith('Store'))
        .map(([, { Properties }]) => Properties.KmsKeyId),
      ...of('AWS::DynamoDB::Table').map(
        ([, { Properties }]) => (Properties.SSESpecification as { KMSMasterKeyId?: unknown }).KMSMasterKeyId,
      ),
      ...of('AWS::DynamoDB::GlobalTable').map(([, { Properties }]) => {
        const [replica] = Properties.Replicas as { SSESpecification?: { KMSMasterKeyId?: unknown } }[];
        return replica?.SSESpecification?.KMSMasterKeyId;
      }),
    ];
    const buckets = of('AWS::S3::Bucket').filter(([id]) => id.startsWith('Store'));
    expect(buckets).toHaveLength(1);
    for (const [, { Properties }] of buckets) {
      const { ServerSideEncryptionConfiguration: rules } = Properties.BucketEncryption as {
        ServerSideEncryptionConfiguration: { ServerSideEncryptionByDefault: { KMSMasterKeyID?: unknown } }[];
      };
      keys.push(...rules.map((rule) => rule.ServerSideEncryptionByDefault.KMSMasterKeyID));
    }
    expect(new Set(keys)).toEqual(new Set([name === 'everything' ? KEY : undefined]));
  });

  it('give rights on that key to each role with rights on what it encrypts, because services use it as their callers', () => {
    const users = templates.flatMap((template) =>
      Object.values({ ...template.findResources('AWS::IAM::Policy'), ...template.findResources(MANAGED) }).map(
        ({ Properties }) => statementsIn(Properties.PolicyDocument),
      ),
    );
    const needed = users.filter((statements) => keyRightsFor(statements).length > 0);
    // Function, edge with its start, NATS servers, workers with theirs, and who makes keys, rotates secrets, or runs workers elsewhere.
    expect(needed).toHaveLength(name === 'dev' ? 5 : 11);
    for (const statements of needed) {
      const onKey = statements.filter(({ Resource }) => Resource === KEY).flatMap(({ Action }) => Action);
      expect([...new Set(onKey)]).toEqual(
        name === 'everything' ? expect.arrayContaining([...keyRightsFor(statements)]) : [],
      );
    }
  });

  it('do not depend on the log: a container goes on when its lines cannot be taken', () => {
    for (const [, { Properties }] of of('AWS::ECS::TaskDefinition')) {
      for (const container of Properties.ContainerDefinitions as { LogConfiguration: { Options: object } }[]) {
        expect(container.LogConfiguration.Options).toMatchObject({
          mode: 'non-blocking',
          'max-buffer-size': '16777216b',
        });
      }
    }
  });
});
