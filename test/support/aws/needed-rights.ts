import type { IncomingMessage } from 'node:http';
import type { CallContext } from './policy.ts';

/** A right that a call needs, in the terms of IAM. */
export interface NeededRight {
  readonly action: string;
  readonly resource: string;
  readonly context?: CallContext;
}

/** Names of resources, which calls do not have whole. */
export interface ResourceNames {
  /** Returns the ARN of a table. */
  tableOf(name: string): string;
  /** Returns the ARN of a queue, by its URL. */
  queueOf(url: string): string;
  /** Returns the Auto Scaling group of an instance; undefined if it has none. */
  groupOf(instanceId: string): string | undefined;
}

/** Returns the service for which a request is signed, as `dynamodb` or `autoscaling`, and the access key. */
export function signerOf({ headers }: IncomingMessage): { readonly accessKeyId: string; readonly service: string } {
  const [, accessKeyId = '', service = ''] =
    /Credential=([^/]+)\/\d+\/[^/]+\/([^/]+)\//.exec(headers.authorization ?? '') ?? [];
  return { accessKeyId, service };
}

/** Returns the rights that a request to a service needs. @throws Error for a service that is not known here */
export function neededRights(
  service: string,
  request: IncomingMessage,
  body: string,
  names: ResourceNames,
): readonly NeededRight[] {
  const operation = String(request.headers['x-amz-target']).split('.')[1] ?? '';
  switch (service) {
    case 'dynamodb':
      return rightsOfTables(operation, JSON.parse(body) as TableCall, names);
    case 'secretsmanager':
      return [{ action: `secretsmanager:${operation}`, resource: (JSON.parse(body) as { SecretId: string }).SecretId }];
    case 's3':
      return [rightOfBucket(request)];
    case 'sqs':
      return [rightOfQueue(operation, JSON.parse(body) as { QueueUrl: string }, names)];
    case 'autoscaling':
      return [rightOfScaling(new URLSearchParams(body), names)];
    default:
      throw new Error(`a call of ${service} is not known here`);
  }
}

type Key = Readonly<Record<string, { readonly S?: string }>>;

interface TableCall {
  readonly TableName?: string;
  readonly Key?: Key;
  readonly Item?: Key;
  readonly KeyConditionExpression?: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Key;
  readonly RequestItems?: Readonly<Record<string, { readonly Keys?: readonly Key[] }>>;
  readonly TransactItems?: readonly Readonly<Record<string, TableCall>>[];
}

/** Actions of the parts of a transaction ("Using IAM with DynamoDB transactions"). */
const PARTS: Readonly<Record<string, string>> = {
  Update: 'UpdateItem',
  Put: 'PutItem',
  Delete: 'DeleteItem',
  ConditionCheck: 'ConditionCheckItem',
  Get: 'GetItem',
};

function rightsOfTables(operation: string, call: TableCall, names: ResourceNames): readonly NeededRight[] {
  const { RequestItems, TransactItems } = call;
  const right = (action: string, table: string, keys: readonly string[]): NeededRight => ({
    action: `dynamodb:${action}`,
    resource: names.tableOf(table),
    context: { 'dynamodb:LeadingKeys': keys },
  });
  if (RequestItems !== undefined)
    return Object.entries(RequestItems).map(([table, { Keys = [] }]) =>
      right(
        operation,
        table,
        Keys.flatMap(({ pk }) => pk?.S ?? []),
      ),
    );
  if (TransactItems !== undefined)
    return TransactItems.flatMap((part) =>
      Object.entries(part).flatMap(([kind, of]) => rightsOfTables(PARTS[kind] ?? kind, of, names)),
    );
  return [right(operation, call.TableName ?? '', leadingKeysOf(call))];
}

function leadingKeysOf({ Key: key, Item: item, ...query }: TableCall): readonly string[] {
  const pk = (key ?? item)?.pk?.S;
  if (pk !== undefined) return [pk];
  const { KeyConditionExpression = '', ExpressionAttributeNames = {}, ExpressionAttributeValues = {} } = query;
  return [...KeyConditionExpression.matchAll(/(#?\w+) *= *(:\w+)/g)].flatMap(([, name = '', value = '']) =>
    (ExpressionAttributeNames[name] ?? name) === 'pk' ? (ExpressionAttributeValues[value]?.S ?? []) : [],
  );
}

/** Returns the right on `/bucket` or `/bucket/key`. The right to read an object includes questions about it. */
function rightOfBucket({ method = 'GET', url = '/' }: IncomingMessage): NeededRight {
  const { pathname, searchParams } = new URL(url, 'http://s3');
  const path = decodeURIComponent(pathname.slice(1));
  const isObject = /^[^/]+\/./.test(path);
  const actions: Readonly<Record<string, string>> = { GET: 'Get', HEAD: 'Get', PUT: 'Put', DELETE: 'Delete' };
  return {
    action: isObject ? `s3:${actions[method] ?? method}Object` : 's3:ListBucket',
    resource: `arn:aws:s3:::${path.replace(/\/$/, '')}`,
    context: isObject ? {} : { 's3:prefix': [searchParams.get('prefix') ?? ''] },
  };
}

/** Returns the right of a call of SQS. That of a batch is that of one message ("Amazon SQS API permissions"). */
function rightOfQueue(operation: string, { QueueUrl }: { QueueUrl: string }, names: ResourceNames): NeededRight {
  return { action: `sqs:${operation.replace(/Batch$/, '')}`, resource: names.queueOf(QueueUrl) };
}

/**
 * Returns the right of a call of Auto Scaling. Those that only look know no resource. An id of a group that only AWS
 * knows stands before its name.
 */
function rightOfScaling(call: URLSearchParams, names: ResourceNames): NeededRight {
  const action = call.get('Action') ?? '';
  if (action.startsWith('Describe')) return { action: `autoscaling:${action}`, resource: '*' };
  const group = call.get('AutoScalingGroupName') ?? names.groupOf(call.get('InstanceId') ?? '') ?? 'none';
  const own = 'arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup';
  return { action: `autoscaling:${action}`, resource: `${own}:0f3c:autoScalingGroupName/${group}` };
}
