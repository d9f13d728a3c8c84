import { createHash, createHmac } from 'node:crypto';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of credentials that expire. */
  readonly sessionToken: string | undefined;
}

export interface SignedRequest {
  /** With its port, where that is not the protocol's own. */
  readonly host: string;
  readonly region: string;
  /** Other headers to sign, by lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly wallMs: number;
}

const SERVICE = 'dynamodb';
const ALGORITHM = 'AWS4-HMAC-SHA256';

/** Headers of a `POST /` to DynamoDB with AWS's signature, version 4; those given are among them. */
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
