import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A model of the stand-in. */
export interface HubModelFiles {
  /** Contents by name. */
  readonly files: Readonly<Record<string, Buffer>>;
  /** Names of large files, which lie at the CDN under their SHA-256. @default none */
  readonly large?: readonly string[];
  /** Commit. @default forty zeros */
  readonly commit?: string;
  /** Branches and tags. @default main */
  readonly revisions?: readonly string[];
  /** Whether only a user with the token may read it: `private` models do not exist for others. @default public */
  readonly access?: 'private' | 'gated';
  /** Whether the hub does not name the checksums of files, as some mirrors. @default false */
  readonly isWithoutSums?: boolean;
}

/** Request that the hub or its CDN has received. */
export interface HubRequest {
  readonly method: string;
  /** Path with its query; a path of the CDN begins with `cdn:`. */
  readonly path: string;
  readonly token: string | undefined;
  readonly range: string | undefined;
}

/** Fault of one answer with the content of a file. */
export type HubFaultPlayed =
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** The answer is complete, but has only that many bytes of what is left. */
  | { readonly kind: 'short'; readonly bytes: number }
  /** The connection is cut after that many bytes. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** Nothing follows that many bytes. */
  | { readonly kind: 'silent'; readonly bytes: number }
  /** Another byte than the file has at that position. */
  | { readonly kind: 'wrong'; readonly at: number }
  /** More bytes than the file has. */
  | { readonly kind: 'long' }
  /** The whole file, whatever part was asked for. */
  | { readonly kind: 'whole' }
  | { readonly kind: 'redirect'; readonly to: string }
  /** Another text than the list. */
  | { readonly kind: 'text'; readonly text: string };

/** Hub of models on loopback that answers as huggingface.co does, with large files on a second address. */
export interface HubServer {
  readonly url: string;
  readonly cdnUrl: string;
  readonly models: Map<string, HubModelFiles>;
  readonly asked: HubRequest[];
  /** The only valid token. */
  readonly token: string;
  /** Faults of the next answers to requests for a list, in order; undefined = none. */
  readonly listFaults: (HubFaultPlayed | undefined)[];
  /** Faults of the next answers with the content of a file. */
  readonly faults: (HubFaultPlayed | undefined)[];
  /** Called when an answer has fallen silent. */
  onSilent: (() => void) | undefined;
  stop(): Promise<void>;
}

export const COMMIT = '0'.repeat(40);

/** Returns Git's name of a content. */
export function gitSum(content: Buffer): string {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
}

export function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Starts a hub without models. */
export async function startHub(): Promise<HubServer> {
  const http = await listening(createServer((request, response) => serveHub(server, request, response)));
  const cdn = await listening(createServer((request, response) => serveCdn(server, request, response)));
  const server: HubServer = {
    url: urlOf(http),
    cdnUrl: urlOf(cdn),
    models: new Map(),
    asked: [],
    token: 'hf_secret',
    listFaults: [],
    faults: [],
    onSilent: undefined,
    async stop() {
      for (const each of [http, cdn]) {
        each.closeAllConnections();
        each.close();
      }
      await Promise.all([http, cdn].map((each) => once(each, 'close')));
    },
  };
  return server;
}

async function listening(server: Server): Promise<Server> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const API = /^\/api\/models\/([^/]+\/[^/]+)(?:\/(revision|tree)\/([^/]+))?$/;
const RESOLVE = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;
const CACHED = /^\/api\/resolve-cache\/models\/([^/]+\/[^/]+)\/([^/]+)\/(.+)$/;

function serveHub(server: HubServer, request: IncomingMessage, response: ServerResponse): void {
  const token = note(server, request, '');
  const { pathname, searchParams } = new URL(request.url ?? '/', server.url);
  const [, apiId, kind = 'revision', apiRevision = 'main'] = API.exec(pathname) ?? [];
  if (apiId !== undefined) {
    const model = admitted(server, apiId, token, response);
    if (model !== undefined) list(server, model, apiId, { kind, revision: apiRevision, searchParams }, response);
    return;
  }
  const [, id, revision, name] = RESOLVE.exec(pathname) ?? CACHED.exec(pathname) ?? [];
  if (id === undefined) {
    refuse(response, 404, 'Not Found');
    return;
  }
  const model = admitted(server, id, token, response);
  if (model === undefined) return;
  const commit = commitOf(model, decodeURIComponent(revision ?? ''));
  if (commit === undefined) {
    refuse(response, 404, 'Invalid rev id', 'RevisionNotFound');
    return;
  }
  const content = model.files[decodeURIComponent(name ?? '')];
  if (content === undefined) {
    refuse(response, 404, 'Entry not found', 'EntryNotFound');
    return;
  }
  const isCached = CACHED.test(pathname);
  sendFile(server, { id, commit, name: decodeURIComponent(name ?? ''), content, isCached, model }, request, response);
}

interface ServedFile {
  readonly id: string;
  readonly commit: string;
  readonly name: string;
  readonly content: Buffer;
  readonly isCached: boolean;
  readonly model: HubModelFiles;
}

/** Redirects as the hub does: a small file to another path of the hub, a large one to the CDN. */
function sendFile(
  server: HubServer,
  { id, commit, name, content, isCached, model }: ServedFile,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const isLarge = model.large?.includes(name) === true;
  response.setHeader('x-repo-commit', commit);
  response.setHeader('etag', `"${isLarge ? sha256(content) : gitSum(content)}"`);
  if (isLarge) {
    response.setHeader('x-linked-etag', `"${sha256(content)}"`);
    response.setHeader('x-linked-size', content.length);
    response.writeHead(302, { location: `${server.cdnUrl}/${sha256(content)}?signature=secret` }).end();
  } else if (!isCached) {
    response
      .writeHead(307, { location: `/api/resolve-cache/models/${id}/${commit}/${encodeURIComponent(name)}` })
      .end();
  } else sendContent(server, content, request, response);
}

function serveCdn(server: HubServer, request: IncomingMessage, response: ServerResponse): void {
  note(server, request, 'cdn:');
  const name = new URL(request.url ?? '/', server.cdnUrl).pathname.slice(1);
  const contents = [...server.models.values()].flatMap(({ files }) => Object.values(files));
  const content = contents.find((each) => sha256(each) === name);
  if (content === undefined) refuse(response, 403, 'Forbidden');
  else sendContent(server, content, request, response);
}

function note(server: HubServer, request: IncomingMessage, place: string): string | undefined {
  const { method = '', url = '', headers } = request;
  const token = headers.authorization?.replace('Bearer ', '');
  server.asked.push({ method, path: `${place}${url}`, token, range: headers.range });
  return token;
}

/** Returns the model if the user may read it; refuses as the hub does otherwise. */
function admitted(
  { models, token: valid }: HubServer,
  id: string,
  token: string | undefined,
  response: ServerResponse,
): HubModelFiles | undefined {
  const model = models.get(decodeURIComponent(id));
  const isKnown = token === valid;
  if (token !== undefined && !isKnown) refuse(response, 401, 'Invalid credentials in Authorization header');
  else if (model === undefined || (model.access === 'private' && !isKnown)) {
    // The hub does not tell strangers which models there are not.
    if (isKnown) refuse(response, 404, 'Repository not found', 'RepoNotFound');
    else refuse(response, 401, 'Invalid username or password.');
  } else if (model.access === 'gated' && !isKnown) {
    refuse(response, 401, `Access to model ${id} is restricted. You must be authenticated to access it.`, 'GatedRepo');
  } else return model;
  return undefined;
}

function commitOf(model: HubModelFiles, revision: string): string | undefined {
  const { commit = COMMIT, revisions = ['main'] } = model;
  return revision === commit || revisions.includes(revision) ? commit : undefined;
}

function list(
  { listFaults }: HubServer,
  model: HubModelFiles,
  id: string,
  {
    kind,
    revision,
    searchParams,
  }: { readonly kind: string; readonly revision: string; readonly searchParams: URLSearchParams },
  response: ServerResponse,
): void {
  const commit = commitOf(model, decodeURIComponent(revision));
  const fault = listFaults.shift();
  if (fault?.kind === 'status') {
    refuse(response, fault.status, 'played', undefined, fault.headers);
    return;
  }
  if (fault?.kind === 'text') {
    response.end(fault.text);
    return;
  }
  if (commit === undefined) {
    refuse(response, 404, 'Invalid rev id', 'RevisionNotFound');
    return;
  }
  const entries = Object.entries(model.files).map(([name, content]) => ({
    name,
    size: content.length,
    // Git's name of a large file is that of its pointer.
    blobId: gitSum(model.large?.includes(name) ? Buffer.from(`pointer to ${sha256(content)}`) : content),
    lfs: model.large?.includes(name) ? { sha256: sha256(content), size: content.length, pointerSize: 134 } : undefined,
  }));
  if (kind === 'tree') {
    const tree = entries.map(({ name, size, blobId, lfs }) => ({
      type: 'file',
      oid: blobId,
      size,
      path: name,
      ...(lfs === undefined ? {} : { lfs: { oid: lfs.sha256, size: lfs.size, pointerSize: lfs.pointerSize } }),
    }));
    sendJson(response, tree);
    return;
  }
  const withBlobs = searchParams.get('blobs') === 'true' && model.isWithoutSums !== true;
  const siblings = entries.map(({ name, ...blob }) => ({ rfilename: name, ...(withBlobs ? blob : {}) }));
  sendJson(response, { _id: '1', id, modelId: id, sha: commit, private: false, gated: false, tags: [], siblings });
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** Sends the content, or the part that is asked for, with the next fault. */
function sendContent(server: HubServer, content: Buffer, request: IncomingMessage, response: ServerResponse): void {
  if (request.method === 'HEAD') {
    response.writeHead(200, { 'content-length': content.length }).end();
    return;
  }
  const fault = server.faults.shift();
  if (fault?.kind === 'status') {
    refuse(response, fault.status, 'played', undefined, fault.headers);
    return;
  }
  if (fault?.kind === 'redirect') {
    response.writeHead(302, { location: fault.to }).end();
    return;
  }
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const from = fault?.kind === 'whole' || first === undefined ? 0 : Number(first);
  if (from >= content.length && from > 0) {
    refuse(response, 416, 'out of range');
    return;
  }
  const end = last ? Math.min(Number(last) + 1, content.length) : content.length;
  const part = partOf(content.subarray(0, end), from, fault);
  const isPart = from > 0 || (first !== undefined && fault?.kind !== 'whole');
  if (isPart) response.setHeader('content-range', `bytes ${from}-${end - 1}/${content.length}`);
  response.writeHead(isPart ? 206 : 200, { 'content-length': part.length });
  if (fault?.kind === 'cut') response.write(part.subarray(0, fault.bytes), () => response.destroy());
  else if (fault?.kind === 'silent') response.write(part.subarray(0, fault.bytes), () => server.onSilent?.());
  else response.end(part);
}

function partOf(content: Buffer, from: number, fault: HubFaultPlayed | undefined): Buffer {
  if (fault?.kind === 'long') return Buffer.concat([content.subarray(from), Buffer.from('more')]);
  if (fault?.kind === 'short') return content.subarray(from, from + fault.bytes);
  const part = Buffer.from(content.subarray(from));
  if (fault?.kind === 'wrong' && part.length > 0) part[fault.at % part.length]! ^= 1;
  return part;
}

function refuse(
  response: ServerResponse,
  status: number,
  message: string,
  code?: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response
    .writeHead(status, {
      'x-error-message': message,
      ...(code === undefined ? {} : { 'x-error-code': code }),
      ...headers,
    })
    .end(message);
}
