import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isAllowed, type Statement } from './policy.ts';

/**
 * Stands before a DynamoDB server, and for Secrets Manager: lets pass what the caller's role allows, refuses the rest as AWS does,
 * remembers all.
 */
export interface IamProxy {
  readonly url: string;
  /** `action resource` of every call that the holder of an access key has made. */
  callsOf(accessKeyId: string): ReadonlySet<string>;
  /** Calls that were refused: `access-key action resource`. */
  readonly refused: readonly string[];
  close(): Promise<void>;
}

export interface IamProxyOptions {
  readonly target: string;
  /** Statements by access key id. */
  readonly principals: Readonly<Record<string, readonly Statement[]>>;
  readonly arnOf: (tableName: string) => string;
  /** Text of a secret by its ARN. */
  readonly secretOf: (arn: string) => string;
}

export async function startIamProxy({ target, principals, arnOf, secretOf }: IamProxyOptions): Promise<IamProxy> {
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
      const { method, url = '/', headers } = request;
      const accessKeyId = /Credential=([^/]+)\//.exec(headers.authorization ?? '')?.[1] ?? '';
      const [service = '', operation = ''] = String(headers['x-amz-target']).split('.');
      const body = Buffer.concat(chunks);
      const { SecretId } = JSON.parse(body.toString()) as { readonly SecretId?: string };
      const action = `${service === 'secretsmanager' ? service : 'dynamodb'}:${operation}`;
      const resources = SecretId === undefined ? tablesOf(body.toString()).map(arnOf) : [SecretId];
      const denied = resources.find((resource) => !isLetIn(accessKeyId, action, resource));
      if (denied !== undefined) {
        const message = `User ${accessKeyId} is not authorized to perform: ${action} on resource: ${denied}`;
        const __type = 'com.amazon.coral.service#AccessDeniedException';
        response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
        response.end(JSON.stringify({ __type, message }));
        return;
      }
      if (SecretId !== undefined) {
        response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' });
        response.end(JSON.stringify({ ARN: SecretId, Name: SecretId, SecretString: secretOf(SecretId) }));
        return;
      }
      const onward = httpRequest(new URL(url, target), { method, headers }, (answer) => {
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

function tablesOf(body: string): readonly string[] {
  const { TableName, RequestItems } = JSON.parse(body) as { TableName?: string; RequestItems?: object };
  return TableName === undefined ? Object.keys(RequestItems ?? {}) : [TableName];
}
