import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { type KubeObject, ObjectStore, type StoreChange } from './object-store.ts';
import { answerScale } from './scale.ts';

/** Path of a resource in a namespace, as the API has them. */
const PATH = /^\/(?:api\/v1|apis\/([^/]+)\/[^/]+)\/namespaces\/([^/]+)\/([a-z]+)(?:\/([^/]+))?(?:\/(scale))?$/;
const PACKED_BYTES_MIN = 128 * 1024;
const APPLY = 'application/apply-patch+yaml';
const WORKLOADS = new Set(['deployments', 'leaderworkersets']);
const RESOURCES = new Set([
  'pods',
  'resourceclaims',
  'endpointslices',
  'leases',
  'dynamoworkermetadatas',
  ...WORKLOADS,
]);

interface Selected {
  /** Values that the labels may have. */
  readonly labels: readonly (readonly [string, readonly string[]])[];
  readonly name: string | undefined;
}

interface Watcher {
  readonly response: ServerResponse;
  /** Version from which it tells changes. */
  readonly version: number;
  close(): void;
}

/** Facts of a call, for a rule of access. */
export interface JudgedCall {
  /** `get`, `list`, `watch`, `update`, `patch` or `delete`. */
  readonly verb: string;
  /** With `/scale` for that part of a workload. */
  readonly resource: string;
  readonly token: string | undefined;
  /** Name of the object, if the call names one. */
  readonly name?: string | undefined;
  /** Whether the call is a server-side apply, which creates the object if there is none. */
  readonly isApply?: boolean;
}

/**
 * A Kubernetes API server in this process, as far as discovery and planners use one: lists in pages, watches that
 * replay history, server-side apply, merge patches, removal by uid, selectors, owners, the scale of workloads.
 * Everything is in memory, so a test can change objects at once, forget history, and count calls.
 */
export class FakeApiServer {
  readonly #server: Server;
  readonly #stores = new Map<string, ObjectStore>();
  readonly #watchers = new Set<Watcher>();
  readonly #counts = new Map<string, number>();
  readonly #sockets = new Set<Socket>();
  readonly #pages = new Map<string, { readonly items: readonly KubeObject[]; readonly version: number }>();
  #version = 1000;
  #pageCount = 0;
  /** Decides whether a call is answered with another status, before everything else. */
  judge: ((call: JudgedCall) => number | undefined) | undefined;
  /** Answers to new watches wait for it. @default they come at once */
  watchesOpenAt: Promise<void> | undefined;

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.keepAliveTimeout = 60_000;
    this.#server.on('connection', (socket) => this.#sockets.add(socket));
  }

  static async start(): Promise<FakeApiServer> {
    const fake = new FakeApiServer();
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve));
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Calls so far, by verb and resource: `list dynamoworkermetadatas`, `watch leases by name`. Pages count singly. */
  counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts);
  }

  /** Bytes that it has sent. */
  get sentBytes(): number {
    return [...this.#sockets].reduce((total, { bytesWritten }) => total + bytesWritten, 0);
  }

  /** Number of open watches. */
  get watches(): number {
    return this.#watchers.size;
  }

  /** Objects of a resource, in any namespace `namespace`. */
  store(resource: string, namespace = 'default'): ObjectStore {
    const key = `${namespace}/${resource}`;
    const store = this.#stores.get(key) ?? new ObjectStore(() => ++this.#version);
    this.#stores.set(key, store);
    return store;
  }

  /** Removes a pod, and what it owns. */
  removePod(name: string): void {
    const pod = this.store('pods').remove(name);
    for (const resource of ['dynamoworkermetadatas', 'leases']) {
      const store = this.store(resource);
      for (const { metadata } of store.objects) {
        const owners = metadata.ownerReferences ?? [];
        if (owners.length > 0 && owners.every(({ uid }) => uid === pod?.metadata.uid)) store.remove(metadata.name);
      }
    }
  }

  /** Ends every watch, as a server that is replaced does. */
  dropWatches(): void {
    for (const { response } of this.#watchers) response.destroy();
  }

  /** Forgets all changes before now. */
  compact(): void {
    for (const store of this.#stores.values()) store.compact(this.#version);
    this.#pages.clear();
  }

  /** Sends a bookmark on every watch. */
  sendBookmarks(): void {
    for (const { response, version } of this.#watchers) {
      if (version > this.#version) continue;
      send(response, { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(this.#version) } } });
    }
  }

  /** Begins anew without any object, from an early version, as a store that was lost. */
  lose(): void {
    this.#version = 1;
    this.#stores.clear();
    this.dropWatches();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request).catch(() => undefined);
    if (body === undefined) return; // the client is gone
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [, , namespace = '', kind = '', name, part] = PATH.exec(url.pathname) ?? [];
    const resource = part === undefined ? kind : `${kind}/${part}`;
    const isWatch = /^(1|true)$/.test(url.searchParams.get('watch') ?? '');
    const one = name === undefined ? 'list' : 'get';
    const changed = request.method === 'PUT' ? 'update' : (request.method ?? '').toLowerCase();
    const verb = request.method === 'GET' ? (isWatch ? 'watch' : one) : changed;
    const counted = `${verb} ${resource}${url.searchParams.has('fieldSelector') ? ' by name' : ''}`;
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1);
    const token = request.headers.authorization?.replace(/^Bearer /, '');
    const isApply = request.headers['content-type'] === APPLY;
    const refused = this.judge?.({ verb, resource, token, name, isApply });
    if (refused !== undefined) return refuse(response, refused, `refused by the rule of the test`);
    if (!RESOURCES.has(kind)) return refuse(response, 404, 'the server could not find the requested resource');
    const store = this.store(kind, namespace);
    if (part !== undefined) {
      const { status, body: answered } = answerScale(store, name ?? '', verb, body);
      return answer(response, status, answered);
    }
    if (isWatch) {
      await this.watchesOpenAt;
      if (!response.destroyed) this.#watch(store, url, response);
      return;
    }
    if (verb === 'list') return this.#list(store, url, response);
    const at = decodeURIComponent(name ?? '');
    if (verb === 'get') return answerOne(response, store.get(at));
    if (verb === 'delete') return removeOne(store, at, body, response);
    if (verb !== 'patch') return refuse(response, 405, 'the method is not allowed');
    return patchOne(store, at, body, request, url, response);
  }

  #list(store: ObjectStore, url: URL, response: ServerResponse): void {
    const selected = selectedBy(url);
    const limit = Number(url.searchParams.get('limit') ?? 0) || Number.POSITIVE_INFINITY;
    const token = url.searchParams.get('continue');
    const page = token === null ? undefined : this.#pages.get(token);
    if (token !== null && page === undefined) {
      refuse(response, 410, 'the provided continue parameter is too old');
      return;
    }
    const matching = store.objects.filter((object) => isSelected(object, selected));
    const { items, version } = page ?? { items: matching, version: this.#version };
    const rest = items.slice(limit);
    const metadata: Record<string, string> = { resourceVersion: String(version) };
    if (rest.length > 0) {
      metadata.continue = `page-${++this.#pageCount}`;
      this.#pages.set(metadata.continue, { items: rest, version });
    }
    answer(response, 200, { kind: 'List', metadata, items: items.slice(0, limit) });
  }

  #watch(store: ObjectStore, url: URL, response: ServerResponse): void {
    const selected = selectedBy(url);
    const version = Number(url.searchParams.get('resourceVersion') ?? 0);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const missed = store.since(version);
    if (missed === undefined) {
      send(response, { type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old resource version' } });
      response.end();
      return;
    }
    const tell = (change: StoreChange): void => {
      const event = eventOf(change, selected);
      // A watch from a version that the server has not reached is silent until it has.
      if (event !== undefined && change.version > version) send(response, event);
    };
    for (const change of missed) tell(change);
    const unlisten = store.listen(tell);
    const watcher = { response, version, close: unlisten };
    this.#watchers.add(watcher);
    response.on('close', () => {
      unlisten();
      this.#watchers.delete(watcher);
    });
  }
}

function eventOf({ version, before, after, last }: StoreChange, selected: Selected): object | undefined {
  const was = before !== undefined && isSelected(before, selected);
  const is = after !== undefined && isSelected(after, selected);
  if (!was && !is) return undefined;
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', object: last };
  // An object that is no longer selected comes as it was, with the version of the change.
  return {
    type: 'DELETED',
    object: { ...before, metadata: { ...before?.metadata, resourceVersion: String(version) } },
  };
}

function patchOne(
  store: ObjectStore,
  name: string,
  body: string,
  request: IncomingMessage,
  url: URL,
  response: ServerResponse,
): void {
  const patch = JSON.parse(body) as Record<string, unknown>;
  const manager = url.searchParams.get('fieldManager');
  if (request.headers['content-type'] === APPLY) {
    const named = (patch.metadata as { readonly name?: string } | undefined)?.name ?? name;
    if (manager === null) refuse(response, 422, 'fieldManager: Required value: is required for apply patch');
    else if (named !== name)
      refuse(response, 400, `the name ${named} of the object does not match the name on the URL`);
    else answer(response, store.get(name) === undefined ? 201 : 200, store.apply(name, manager, patch));
  } else {
    answerOne(response, store.merge(name, patch));
  }
}

function removeOne(store: ObjectStore, name: string, body: string, response: ServerResponse): void {
  const { preconditions } = (body === '' ? {} : JSON.parse(body)) as {
    readonly preconditions?: { readonly uid?: string };
  };
  const uid = store.get(name)?.metadata.uid;
  if (uid !== undefined && preconditions?.uid !== undefined && preconditions.uid !== uid) {
    refuse(response, 409, 'the UID in the precondition does not match the UID in record');
  } else if (store.remove(name) === undefined) {
    refuse(response, 404, 'not found');
  } else {
    answer(response, 200, { kind: 'Status', status: 'Success' });
  }
}

function selectedBy({ searchParams }: URL): Selected {
  const requirements = (searchParams.get('labelSelector') ?? '').matchAll(/([^\s,=]+)(?:=([^,]*)| in \(([^)]*)\))/g);
  const labels = [...requirements].map(
    ([, key = '', value, set = '']) => [key, value === undefined ? set.split(',') : [value]] as const,
  );
  const name = /^metadata\.name=(.*)$/.exec(searchParams.get('fieldSelector') ?? '')?.[1];
  return { labels, name };
}

function isSelected({ metadata }: KubeObject, { labels, name }: Selected): boolean {
  return (
    (name === undefined || metadata.name === name) &&
    labels.every(([key, values]) => values.includes(metadata.labels?.[key] ?? ''))
  );
}

function answerOne(response: ServerResponse, object: KubeObject | undefined): void {
  if (object === undefined) refuse(response, 404, 'not found');
  else answer(response, 200, object);
}

function refuse(response: ServerResponse, code: number, message: string): void {
  answer(response, code, { kind: 'Status', status: 'Failure', code, message });
}

function answer(response: ServerResponse, status: number, body: object): void {
  const text = Buffer.from(JSON.stringify(body));
  // Kubernetes packs answers of this size for those who read packed ones.
  const isPacked = text.length > PACKED_BYTES_MIN && response.req.headers['accept-encoding'] === 'gzip';
  const sent = isPacked ? gzipSync(text, { level: 1 }) : text;
  const encoding = isPacked ? { 'content-encoding': 'gzip' } : {};
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': sent.length, ...encoding })
    .end(sent);
}

function send(response: ServerResponse, event: object): void {
  response.write(`${JSON.stringify(event)}\n`);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
