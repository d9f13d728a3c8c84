import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server with the calls of S3 that the tests need, with buckets in the path. */
export interface S3Server {
  readonly url: string;
  /** Contents by `bucket/key`. */
  readonly objects: Map<string, Buffer>;
  /** Dates of contents by the same names; one without a date is listed without it. */
  readonly changedAt: Map<string, Date>;
  /** `GET /bucket/key` or `GET /bucket?list` of every request, in order. */
  readonly asked: string[];
  /** Called after the head of an object, in place of sending the rest. @default undefined: everything is sent */
  stuckAt: ((response: ServerResponse, content: Buffer) => void) | undefined;
  /** Status with which it answers every request. @default undefined: the correct one */
  refusal: number | undefined;
  stop(): Promise<void>;
}

const PAGE_MAX = 1000;

/** Starts a server on loopback that requires no credentials. */
export async function startS3Server(): Promise<S3Server> {
  const http = createServer((request, response) => serve(server, request, response));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const server: S3Server = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    objects: new Map(),
    changedAt: new Map(),
    asked: [],
    stuckAt: undefined,
    refusal: undefined,
    async stop() {
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
  return server;
}

function serve(server: S3Server, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '/', server.url);
  const path = decodeURIComponent(pathname.slice(1));
  const isList = searchParams.get('list-type') === '2';
  server.asked.push(`${request.method} ${pathname}${isList ? '?list' : ''}`);
  if (server.refusal !== undefined) refuse(response, server.refusal, 'AccessDenied');
  else if (isList) list(server, path.replace(/\/$/, ''), searchParams.get('prefix') ?? '', response);
  else if (request.method === 'PUT') void keep(server, path, request, response);
  else send(server, path, request, response);
}

function list({ objects, changedAt }: S3Server, bucket: string, prefix: string, response: ServerResponse): void {
  const paths = [...objects.keys()].filter((path) => path.startsWith(`${bucket}/`)).sort();
  if (paths.length === 0) {
    refuse(response, 404, 'NoSuchBucket');
    return;
  }
  const found = paths.filter((path) => path.startsWith(`${bucket}/${prefix}`));
  const rows = found.slice(0, PAGE_MAX).map((path) => {
    const content = objects.get(path) ?? Buffer.alloc(0);
    const key = path.slice(bucket.length + 1).replaceAll('&', '&amp;');
    const date = changedAt.get(path)?.toISOString();
    const dated = date === undefined ? '' : `<LastModified>${date}</LastModified>`;
    return `<Contents><Key>${key}</Key><Size>${content.length}</Size><ETag>${etagOf(content)}</ETag>${dated}</Contents>`;
  });
  const isTruncated = `<IsTruncated>${found.length > PAGE_MAX}</IsTruncated>`;
  response.writeHead(200, { 'content-type': 'application/xml' });
  response.end(`<?xml version="1.0"?><ListBucketResult>${isTruncated}${rows.join('')}</ListBucketResult>`);
}

/** Stores an object. Refuses it if it does not match its checksum, as S3 does. */
async function keep(server: S3Server, path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const content = Buffer.concat(await request.toArray());
  const sum = createHash('sha256').update(content).digest('base64');
  if (request.headers['x-amz-checksum-sha256'] !== sum) {
    refuse(response, 400, 'BadDigest');
    return;
  }
  server.objects.set(path, content);
  response.writeHead(200, { etag: etagOf(content) }).end();
}

function send(server: S3Server, path: string, request: IncomingMessage, response: ServerResponse): void {
  const ifMatch = request.headers['if-match'];
  const content = server.objects.get(path);
  if (content === undefined) {
    refuse(response, 404, 'NoSuchKey');
    return;
  }
  if (ifMatch !== undefined && ifMatch !== etagOf(content)) {
    refuse(response, 412, 'PreconditionFailed');
    return;
  }
  const [, from] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
  const part = content.subarray(Number(from ?? 0));
  const range = from === undefined ? {} : { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` };
  const headers = { 'content-length': part.length, etag: etagOf(content), ...range };
  response.writeHead(from === undefined ? 200 : 206, headers);
  if (request.method === 'HEAD') response.end();
  else if (server.stuckAt === undefined) response.end(part);
  else server.stuckAt(response, part);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`);
}

function etagOf(content: Buffer): string {
  return `"${createHash('md5').update(content).digest('hex')}"`;
}
