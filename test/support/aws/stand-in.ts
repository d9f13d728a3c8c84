import {
  type AttributeDefinition,
  CreateTableCommand,
  DynamoDBClient,
  type KeySchemaElement,
} from '@aws-sdk/client-dynamodb';
import { type DynamoDbServer, startDynamoDb } from '../dynamodb-server.ts';
import type { DeployedFunction, DeployedStack } from './deployment.ts';
import type { TaskPlan } from './ecs/services.ts';
import { type IamProxy, startIamProxy } from './iam-proxy.ts';
import type { Statement } from './policy.ts';
import { Secrets } from './secrets.ts';

type Env = Readonly<Record<string, string>>;
type Stacks = Readonly<Record<string, DeployedStack>>;

/** The services that a deployment finds in its account: tables and files that enforce its roles, and secrets. */
export interface StandIn {
  readonly proxy: IamProxy;
  /** Returns the credentials of `principal` and the endpoints of AWS. */
  credentials(principal: string): Env;
  /** Returns the credentials and endpoints for the tasks of a definition. */
  environmentOf(task: TaskPlan): Env;
  /** Returns the variables of a function at run time, with secrets that CloudFormation has filled in. */
  functionEnvironment(of: DeployedFunction): Env;
  /** Returns the text of a secret by its ARN, with the field that ECS appends. */
  secretOf(valueFrom: string): string;
  close(): Promise<void>;
}

export const FUNCTION = 'function';
export const OPERATOR = 'operator';

/**
 * Starts the services for deployed stacks.
 * @param storage endpoint of S3
 */
export async function openStandIn(stacks: Stacks, storage: string): Promise<StandIn> {
  const server = await startDynamoDb();
  const tables = Object.assign({}, ...Object.values(stacks).map((stack) => stack.tables)) as DeployedStack['tables'];
  await createTables(server, tables);
  const secrets = new Secrets(Object.values(stacks).map(({ template }) => template));
  const secretOf = (valueFrom: string): string => secrets.textOf(valueFrom);
  const proxy = await startIamProxy({
    target: server.url,
    storage,
    secretOf,
    arnOf: (name) => tables[name]?.arn ?? `no-table/${name}`,
    principals: principalsIn(stacks),
  });
  const credentials = (principal: string): Env => ({
    AWS_ACCESS_KEY_ID: principal,
    AWS_SECRET_ACCESS_KEY: principal,
    AWS_REGION: 'us-east-1',
    STATOR_DYNAMODB_ENDPOINT: proxy.url,
    AWS_ENDPOINT_URL_SECRETS_MANAGER: proxy.url,
    AWS_ENDPOINT: proxy.url,
    AWS_ALLOW_HTTP: 'true',
  });
  return {
    proxy,
    credentials,
    secretOf,
    environmentOf: ({ definition }) => credentials(definition.split('/')[1] ?? ''),
    functionEnvironment: ({ environment }) => {
      const filled = Object.entries(environment).map(([name, value]) => [name, secrets.fill(value)]);
      return { ...Object.fromEntries(filled), ...credentials(FUNCTION) };
    },
    async close() {
      await proxy.close();
      await server.stop();
    },
  };
}

/** Returns the function that serves clients. The CDK adds others, which empty buckets. */
export function functionOf(stacks: Stacks): DeployedFunction {
  const all = Object.values(stacks).flatMap(({ functions }) => Object.values(functions));
  const found = all.filter(({ environment }) => 'STATOR_AUTH' in environment);
  if (found[0] === undefined || found.length > 1) throw new Error('a deployment must have one HTTP function');
  return found[0];
}

/** Returns an output, of any stack. */
export function outputOf(stacks: Stacks, name: string): string {
  const value = Object.values(stacks).find(({ outputs }) => name in outputs)?.outputs[name];
  if (value === undefined) throw new Error(`no stack has an output ${name}`);
  return value;
}

/**
 * Returns the statements of each role by access key: the function, its operator, and the tasks by the ids of their
 * definitions.
 */
function principalsIn(stacks: Stacks): Record<string, readonly Statement[]> {
  const policies = Object.assign(
    {},
    ...Object.values(stacks).map((stack) => stack.policies),
  ) as DeployedStack['policies'];
  const tasks = Object.values(stacks).flatMap((stack) => Object.entries(stack.tasks));
  return {
    [FUNCTION]: functionOf(stacks).statements,
    [OPERATOR]: policies[outputOf(stacks, 'OperatorPolicyArn')] ?? [],
    ...Object.fromEntries(tasks.map(([id, { statements }]) => [id, statements])),
  };
}

async function createTables(server: DynamoDbServer, tables: DeployedStack['tables']): Promise<void> {
  const client = new DynamoDBClient({ endpoint: server.url });
  for (const [TableName, { keys, attributes }] of Object.entries(tables)) {
    const KeySchema = keys as KeySchemaElement[];
    const AttributeDefinitions = attributes as AttributeDefinition[];
    const input = { TableName, KeySchema, AttributeDefinitions, BillingMode: 'PAY_PER_REQUEST' as const };
    await client.send(new CreateTableCommand(input));
  }
  client.destroy();
}
