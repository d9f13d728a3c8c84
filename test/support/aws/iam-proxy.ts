import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isAllowed, type Statement } from './policy.ts';

/**
 * A proxy in front of a DynamoDB server and an S3 server, which also acts as Secrets Manager. It passes on what the
 * role of the caller allows, refuses the rest as AWS does, and records every call.
 */
export interface IamProxy {
  readonly url: string;
  /** Returns `action resource` of every call made with an access key. */
  callsOf(accessKeyId: string): ReadonlySet<string>;
  /** Refused calls: `access-key action resource`. */
  readonly refused: readonly string[];
  close(): Promise<void>;
}

export interface IamProxyOptions {
  readonly target: string;
  /** Endpoint of S3, with buckets in the path. */
  readonly storage: string;
  /** Statements by access key id. */
  readonly principals: Readonly<Record<string, readonly Statement[]>>;
  readonly arnOf: (tableName: string) => string;
  /** Returns the text of a secret, by its ARN. */
  readonly secretOf: (arn: string) => string;
}

export async function startIamProxy({
  target,
  storage,
  principals,
  arnOf,
  secretOf,
}: IamProxyOptions): Promise<IamProxy> {
  const calls = new Map<string, Set<string>>();
  const refused: string[] = [];
  const isLetIn = (accessKeyId: string, action: string, resource: string): boolean => {
    const own = calls.get(accessKeyId) ?? new Set();
    calls.set(accessKeyId, own.add(`${action} ${resource}`));
    if (isAllowed(principals[accessKeyId] ?? [], action, resource)) return true;
    refused.push(`${accessKeyId} ${action} ${resource}`);
    return false;
  };
  const front = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const accessKeyId = /Credential=([^/]+)\//.exec(request.headers.authorization ?? '')?.[1] ?? '';
      const asked = isOfS3(request) ? askedOfS3(request) : askedByTarget(request, body, arnOf);
      const denied = asked.resources.find((resource) => !isLetIn(accessKeyId, asked.action, resource));
      if (denied !== undefined) {
        refuse(
          response,
          asked,
          `User ${accessKeyId} is not authorized to perform: ${asked.action} on resource: ${denied}`,
        );
        return;
      }
      if (asked.secretId !== undefined) {
        response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' });
        response.end(
          JSON.stringify({ ARN: asked.secretId, Name: asked.secretId, SecretString: secretOf(asked.secretId) }),
        );
        return;
      }
      const to = new URL(request.url ?? '/', asked.isOfS3 ? storage : target);
      const headers = { ...request.headers, host: to.host };
      const onward = httpRequest(to, { method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy());
      onward.end(body);
    });
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const { port } = front.address() as AddressInfo; // a listening TCP server has an AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    callsOf: (accessKeyId) => calls.get(accessKeyId) ?? new Set(),
    refused,
    async close() {
      front.closeAllConnections();
      front.close();
      await once(front, 'close');
    },
  };
}

/** The right that a request needs, in the terms of IAM. */
interface Asked {
  readonly action: string;
  readonly resources: readonly string[];
  readonly secretId?: string | undefined;
  readonly isOfS3: boolean;
}

function isOfS3({ headers }: IncomingMessage): boolean {
  return headers['x-amz-target'] === undefined;
}

/**
 * Derives the right from the path, which is `/bucket` or `/bucket/key`. The right to read an object includes questions
 * about it.
 */
function askedOfS3({ method = 'GET', url = '/' }: IncomingMessage): Asked {
  const path = decodeURIComponent(new URL(url, 'http://s3').pathname.slice(1));
  const isObject = /^[^/]+\/./.test(path);
  const actions: Readonly<Record<string, string>> = { GET: 'Get', HEAD: 'Get', PUT: 'Put', DELETE: 'Delete' };
  const action = isObject ? `s3:${actions[method] ?? method}Object` : 's3:ListBucket';
  return { action, resources: [`arn:aws:s3:::${path.replace(/\/$/, '')}`], isOfS3: true };
}

/** Derives the right from the header that names the operation, and from the tables or the secret in the body. */
function askedByTarget({ headers }: IncomingMessage, body: Buffer, arnOf: IamProxyOptions['arnOf']): Asked {
  const [service = '', operation = ''] = String(headers['x-amz-target']).split('.');
  const { SecretId: secretId } = JSON.parse(body.toString()) as { readonly SecretId?: string };
  const action = `${service === 'secretsmanager' ? service : 'dynamodb'}:${operation}`;
  const resources = secretId === undefined ? tablesOf(body.toString()).map(arnOf) : [secretId];
  return { action, resources, secretId, isOfS3: false };
}

/** Refuses a call in the form of the service that it asked. */
function refuse(response: ServerResponse, { isOfS3 }: Asked, message: string): void {
  if (isOfS3) {
    response.writeHead(403, { 'content-type': 'application/xml' });
    response.end(`<Error><Code>AccessDenied</Code><Message>${message}</Message></Error>`);
    return;
  }
  const __type = 'com.amazon.coral.service#AccessDeniedException';
  response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
  response.end(JSON.stringify({ __type, message }));
}

function tablesOf(body: string): readonly string[] {
  const { TableName, RequestItems } = JSON.parse(body) as { TableName?: string; RequestItems?: object };
  return TableName === undefined ? Object.keys(RequestItems ?? {}) : [TableName];
}
