import { createHash, createHmac } from 'node:crypto';
import * as http from 'node:http';
import * as https from 'node:https';
import type { TableCalls, TableClient, TableClientDependencies, TableOptions } from './table-client.ts';

/** Variables of the SDK that this client does not support. */
const SDK_ONLY = [
  'AWS_CONFIG_FILE',
  'AWS_ENDPOINT_URL',
  'AWS_ENDPOINT_URL_DYNAMODB',
  'AWS_PROFILE',
  'AWS_SHARED_CREDENTIALS_FILE',
  'AWS_USE_DUALSTACK_ENDPOINT',
  'AWS_USE_FIPS_ENDPOINT',
];
/** Regions whose services have other domains. */
const OTHER_DOMAINS = /^(cn|us-iso|eu-iso|eusc)/;
const SOCKETS_MAX = 50;
/**
 * Further attempts after a dead connection. Connections die while a function is frozen, which shows only at their next
 * use. A call that only reads is repeated at once on another connection. There are at most as many as connections were
 * kept.
 */
const READS: ReadonlySet<keyof TableCalls> = new Set(['BatchGetItem', 'GetItem', 'Query', 'Scan']);
const GONE: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

interface WireOptions {
  readonly url: URL;
  readonly region: string;
  readonly credentials: Credentials;
}

/**
 * Returns the endpoint of the table for a Lambda function, without the SDK, which would cost a cold start 70 ms of CPU.
 * Lambda gives the function region and credentials as variables for the life of its process. Returns undefined if only
 * the SDK can find them.
 */
export function wireOptionsOf(
  { endpoint, region: given }: Pick<TableOptions, 'endpoint' | 'region'>,
  env: NodeJS.ProcessEnv,
): WireOptions | undefined {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  const region = given ?? env.AWS_REGION;
  if (!env.AWS_EXECUTION_ENV?.startsWith('AWS_Lambda_') || SDK_ONLY.some((name) => env[name])) return undefined;
  if (!accessKeyId || !secretAccessKey || !region) return undefined;
  if (endpoint === undefined && OTHER_DOMAINS.test(region)) return undefined;
  const address = endpoint ?? `https://dynamodb.${region}.amazonaws.com`;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== '/') return undefined;
  return {
    url,
    region,
    credentials: { accessKeyId, secretAccessKey, sessionToken: env.AWS_SESSION_TOKEN || undefined },
  };
}

/** A client that speaks DynamoDB's JSON protocol without the SDK. Its waits end with the signals of its calls. */
export function openWireClient(options: WireOptions, { clock, time }: TableClientDependencies): TableClient {
  const { url, region, credentials } = options;
  const { request, Agent } = url.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });
  return {
    async call(name, input, signal) {
      const body = JSON.stringify(encoded(input));
      const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `DynamoDB_20120810.${name}` };
      const toSign = { host: url.host, region, headers, body, wallMs: clock.wallMs() };
      const signed = signedHeaders(toSign, credentials);
      const sentMs = clock.nowMs();
      const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
        const send = (): void => {
          const sent = request(url, { method: 'POST', agent, signal, headers: signed }, resolve);
          const onError = (error: NodeJS.ErrnoException): void => {
            const isDead = sent.reusedSocket && READS.has(name) && GONE.has(error.code ?? '');
            if (isDead && !signal.aborted) send();
            else reject(error);
          };
          sent.on('error', onError).end(body);
        };
        send();
      });
      time.observe(response.headers.date, sentMs, clock.nowMs());
      const text = await textOf(response);
      if (response.statusCode !== 200) throw refusalOf(response, text);
      return decoded(text) as never; // the form of the protocol
    },
    destroy: () => agent.destroy(),
  };
}

async function textOf(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/**
 * Returns the service's refusal under its own name with its details: the item of a condition, or the reasons of a
 * transaction.
 */
function refusalOf(response: http.IncomingMessage, text: string): Error {
  let body: Readonly<Record<string, unknown>> = {};
  try {
    body = decoded(text) as typeof body;
  } catch {
    // not from the service, but a page of a proxy
  }
  const { __type: type, message, Message, ...more } = body;
  const word = String(type ?? response.headers['x-amzn-errortype'] ?? 'UnknownError');
  const error = new Error(String(message ?? Message ?? `HTTP status ${response.statusCode}`));
  return Object.assign(error, more, { name: word.replace(/^.*#/, '').replace(/:.*$/, '') });
}

/** Bytes travel as base64. */
function encoded(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64');
  if (Array.isArray(value)) return value.map(encoded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, encoded(part)]));
}

/** Text under a name `B` is bytes, because an attribute of that name has an object there. */
function decoded(text: string): unknown {
  if (!/"BS?"\s*:/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (name, value: unknown) => {
    if (name === 'B' && typeof value === 'string') return bytesOf(value);
    if (name === 'BS' && Array.isArray(value)) return value.map((each) => bytesOf(String(each)));
    return value;
  });
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Session token, for credentials that expire. */
  readonly sessionToken: string | undefined;
}

interface SignedRequest {
  /** Host with its port, unless the port is the default of the protocol. */
  readonly host: string;
  readonly region: string;
  /** Other headers to sign, by lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly wallMs: number;
}

const SERVICE = 'dynamodb';
const ALGORITHM = 'AWS4-HMAC-SHA256';

/** Returns the headers of a `POST /` to DynamoDB with AWS's signature, version 4, including the given ones. */
export function signedHeaders(request: SignedRequest, credentials: Credentials): Record<string, string> {
  const { host, region, body, wallMs } = request;
  const time = new Date(wallMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const day = time.slice(0, 8);
  const token = credentials.sessionToken;
  const headers: Record<string, string> = {
    ...request.headers,
    host,
    'x-amz-date': time,
    ...(token === undefined ? {} : { 'x-amz-security-token': token }),
  };
  const names = Object.keys(headers).sort();
  const lines = names.map((name) => `${name}:${headers[name]?.trim()}\n`).join('');
  const list = names.join(';');
  const canonical = ['POST', '/', '', lines, list, sha256(body)].join('\n');
  const scope = `${day}/${region}/${SERVICE}/aws4_request`;
  const parts = [day, region, SERVICE, 'aws4_request'];
  const key = parts.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${credentials.secretAccessKey}`);
  const signature = hmac(key, [ALGORITHM, time, scope, sha256(canonical)].join('\n')).toString('hex');
  headers.authorization = `${ALGORITHM} Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${list}, Signature=${signature}`;
  return headers;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
