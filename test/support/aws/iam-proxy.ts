import { once } from 'node:events';
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type NeededRight, neededRights, type ResourceNames, signerOf } from './needed-rights.ts';
import { isAllowed, type Statement } from './policy.ts';

/**
 * A proxy in front of a DynamoDB server, an S3 server, Auto Scaling and a queue, which also acts as Secrets Manager. It
 * passes on what the role of the caller allows, refuses the rest as AWS does, and records every call.
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
  /** Endpoint of Auto Scaling. @default none */
  readonly scaling?: string;
  /** Endpoint of SQS. @default none */
  readonly queues?: string;
  /** Statements by access key id. */
  readonly principals: Readonly<Record<string, readonly Statement[]>>;
  readonly arnOf: (tableName: string) => string;
  /** Returns the ARN of a queue, by its URL. */
  readonly queueArnOf?: (url: string) => string;
  /** Returns the Auto Scaling group of an instance. */
  readonly groupOf?: (instanceId: string) => string | undefined;
  /** Returns the text of a secret, by its ARN. */
  readonly secretOf: (arn: string) => string;
}

/** Services that answer in XML. */
const XML: ReadonlySet<string> = new Set(['s3', 'autoscaling']);

export async function startIamProxy(options: IamProxyOptions): Promise<IamProxy> {
  const { principals, arnOf, secretOf, queueArnOf = (url) => url, groupOf = () => undefined } = options;
  const names: ResourceNames = { tableOf: arnOf, queueOf: queueArnOf, groupOf };
  const targets: Readonly<Record<string, string | undefined>> = {
    dynamodb: options.target,
    s3: options.storage,
    autoscaling: options.scaling,
    sqs: options.queues,
  };
  const calls = new Map<string, Set<string>>();
  const refused: string[] = [];
  const isLetIn = (accessKeyId: string, { action, resource, context }: NeededRight): boolean => {
    const own = calls.get(accessKeyId) ?? new Set();
    calls.set(accessKeyId, own.add(`${action} ${resource}`));
    if (isAllowed(principals[accessKeyId] ?? [], action, resource, context)) return true;
    refused.push(`${accessKeyId} ${action} ${resource}`);
    return false;
  };
  const front = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const { accessKeyId, service } = signerOf(request);
      const needed = neededRights(service, request, body.toString(), names);
      const denied = needed.find((right) => !isLetIn(accessKeyId, right));
      if (denied !== undefined) {
        const { action, resource } = denied;
        refuse(
          response,
          service,
          `User ${accessKeyId} is not authorized to perform: ${action} on resource: ${resource}`,
        );
        return;
      }
      if (service === 'secretsmanager') {
        const { resource: ARN = '' } = needed[0] ?? {};
        response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' });
        response.end(JSON.stringify({ ARN, Name: ARN, SecretString: secretOf(ARN) }));
        return;
      }
      const to = new URL(request.url ?? '/', targets[service]);
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

/** Refuses a call in the form of the service that it asked. */
function refuse(response: ServerResponse, service: string, message: string): void {
  if (XML.has(service)) {
    const error = `<Error><Code>AccessDenied</Code><Message>${message}</Message></Error>`;
    response.writeHead(403, { 'content-type': 'application/xml' });
    response.end(service === 's3' ? error : `<ErrorResponse>${error}</ErrorResponse>`);
    return;
  }
  const __type = 'com.amazon.coral.service#AccessDeniedException';
  response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
  response.end(JSON.stringify({ __type, message }));
}
