import { type LookupAddress, lookup as resolveName } from 'node:dns';
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { LookupFunction } from 'node:net';
import { extname, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { overLimit, ServeError, workerError } from '../../errors/index.ts';
import { checkMediaUrl, isInternalAddress, type MediaPolicy } from './media-policy.ts';

const REDIRECTS_MAX = 5;

export interface FetchedMedia {
  /** Media type from the server, without parameters; `application/octet-stream` if it gives none. */
  readonly mediaType: string;
  readonly bytes: Buffer;
}

export interface MediaFetchOptions {
  readonly policy: MediaPolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Resolves names to addresses. @default the system's resolver */
  readonly resolve?: typeof resolveName;
  /** Connections of earlier fetches under the same policy. @default each fetch has one of its own */
  readonly connections?: MediaConnections;
  /** Budget of the request that the medium belongs to. @default only the policy's limit of a file */
  readonly budget?: MediaBudget;
}

/**
 * Reads a medium over HTTP within the bounds of the policy. The addresses of a name are checked when the connection is
 * made, and again at every redirect, so a name cannot lead to an internal address after the check.
 *
 * @throws ServeError `invalid_value` that says what the client can change; the signal's reason when it aborts.
 */
export async function fetchMedia(url: string, options: MediaFetchOptions): Promise<FetchedMedia> {
  const { clock, policy, signal } = options;
  const { timeoutMs } = policy;
  let media: FetchedMedia | undefined;
  await forAtMost({ clock, timeoutMs, signal }, async (limited) => {
    media = await follow(url, options, limited);
  });
  if (media === undefined) throw refused(`was not read within ${timeoutMs} ms`);
  return media;
}

async function follow(url: string, options: MediaFetchOptions, signal: AbortSignal): Promise<FetchedMedia> {
  let at = url;
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    const fault = checkMediaUrl(at, options.policy);
    if (fault !== undefined) throw refused(redirects === 0 ? fault : `redirects to one that ${fault}`);
    const response = await get(new URL(at), options, signal);
    const next = redirectOf(response, at);
    if (next === undefined) return await readWhole(response, options.policy, options.budget);
    response.destroy();
    at = next;
  }
  throw refused(`redirects more than ${REDIRECTS_MAX} times`);
}

/** Creates the client's error for a medium that it named. */
function refused(fault: string): Error {
  return workerError('InvalidArgument', `a media URL ${fault}`);
}

function get(url: URL, options: MediaFetchOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const { policy, clock, connections, resolve = resolveName } = options;
  const isSecure = url.protocol === 'https:';
  const send = isSecure ? requestHttps : requestHttp;
  return new Promise((settle, reject) => {
    const request = send(url, {
      signal,
      // A kept connection stays with the address that was checked when it was made.
      agent: connections?.agentFor(isSecure) ?? false,
      lookup: publicLookup(policy, resolve),
      headers: { accept: '*/*', 'user-agent': 'stator' },
    });
    const timer = clock.after(policy.connectTimeoutMs, () => {
      request.destroy(refused(`did not answer within ${policy.connectTimeoutMs} ms`));
    });
    request.once('response', (response) => {
      timer.cancel();
      settle(response);
    });
    request.once('error', (error) => {
      timer.cancel();
      // The server closed a kept connection just as it was reused, which says nothing about the medium.
      if (request.reusedSocket && !signal.aborted && !(error instanceof ServeError)) {
        const { connections: _, ...fresh } = options;
        settle(get(url, fresh, signal));
        return;
      }
      const isOurs = error instanceof ServeError || signal.aborted;
      reject(isOurs ? error : refused(`cannot be read (${'code' in error ? String(error.code) : error.message})`));
    });
    request.end();
  });
}

/** Returns a lookup that resolves a name as usual, but fails when any of its addresses is internal. */
function publicLookup(policy: MediaPolicy, resolve: typeof resolveName): LookupFunction {
  return (hostname, lookupOptions, callback) => {
    resolve(hostname, { ...lookupOptions, all: true }, (error, found) => {
      const addresses = found as LookupAddress[] | undefined;
      // Unknown names and internal ones give the same error; otherwise requests could list the names of an internal
      // zone.
      const isPublic = error === null && !addresses?.some(({ address }) => isInternalAddress(address));
      if (!isPublic && !policy.allowsInternal) return callback(refused('names no public host'), []);
      if (error !== null) return callback(error, []);
      const [first] = addresses ?? [];
      if (lookupOptions.all === true || first === undefined) return callback(null, addresses ?? []);
      return callback(null, first.address, first.family);
    });
  };
}

function redirectOf({ statusCode = 0, headers }: IncomingMessage, from: string): string | undefined {
  if (statusCode < 300 || statusCode >= 400 || headers.location === undefined) return undefined;
  return URL.canParse(headers.location, from) ? new URL(headers.location, from).href : headers.location;
}

async function readWhole(
  response: IncomingMessage,
  { fileBytesMax }: MediaPolicy,
  budget: MediaBudget | undefined,
): Promise<FetchedMedia> {
  const { statusCode = 0, headers } = response;
  if (statusCode !== 200) {
    response.destroy();
    throw refused(`answered ${statusCode}`);
  }
  const tooLarge = refused(`has more than ${fileBytesMax} bytes`);
  if (Number(headers['content-length']) > fileBytesMax) {
    response.destroy();
    throw tooLarge;
  }
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > fileBytesMax) throw tooLarge; // leaving the loop destroys the response
    budget?.take(part.length);
    parts.push(part);
  }
  const mediaType = headers['content-type']?.split(';')[0]?.trim() || 'application/octet-stream';
  return { mediaType, bytes: Buffer.concat(parts, length) };
}

interface LocalMediaBounds {
  /** Only folder whose files may be read. */
  readonly folder: string;
  readonly fileBytesMax: number;
  /** Budget of the request that the medium belongs to. @default only `fileBytesMax` */
  readonly budget?: MediaBudget;
}

/** Media types by file extension; a file has no other indication of its type. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.bmp': 'image/bmp',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.mov': 'video/quicktime',
  '.mp3': 'audio/mpeg',
  '.wav': 'audio/wav',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
};

/**
 * Reads a medium that a `file:` URL names, from below one folder. The real path counts, after following links. Every
 * path outside is refused with the same error, whether or not it exists, so that clients cannot probe this host's
 * files.
 *
 * @throws ServeError `invalid_value` that says what the client can change; the signal's reason when it aborts.
 */
export async function readLocalMedia(
  url: string,
  bounds: LocalMediaBounds,
  signal: AbortSignal,
): Promise<FetchedMedia> {
  const { fileBytesMax, budget } = bounds;
  const path = await pathBelow(url, bounds.folder);
  signal.throwIfAborted();
  // Does not open a link that was created meanwhile, or wait for a pipe without end.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(unreadable);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw refused('is not a file');
    if (stats.size > fileBytesMax) throw refused(`has more than ${fileBytesMax} bytes`);
    budget?.take(stats.size);
    const bytes = Buffer.alloc(stats.size); // the size at that time: a file that grows is cut off there
    const { bytesRead } = await file.read(bytes, 0, stats.size, 0);
    signal.throwIfAborted();
    return {
      mediaType: MEDIA_TYPES[extname(path).toLowerCase()] ?? 'application/octet-stream',
      bytes: bytes.subarray(0, bytesRead),
    };
  } finally {
    await file.close();
  }
}

async function pathBelow(url: string, folder: string): Promise<string> {
  const named = pathOf(url);
  const given = resolve(folder);
  const real = await realpath(given).catch(() => given);
  if (!isBelow(named, given) && !isBelow(named, real)) throw outside();
  const path = await realpath(named).catch(unreadable);
  if (!isBelow(path, real)) throw outside();
  return path;
}

function pathOf(url: string): string {
  try {
    const path = fileURLToPath(url);
    if (!path.includes('\0')) return resolve(path);
  } catch {
    // another host, or an escaped separator: reported below
  }
  throw refused('is not a file:///path of this host');
}

function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

function outside(): Error {
  return refused('is outside of the folder of local media');
}

function unreadable(error: NodeJS.ErrnoException): never {
  throw refused(`cannot be read (${error.code ?? 'unknown'})`);
}

/** Limit of idle connections of one scheme, over all hosts: clients may name any number of hosts. */
const IDLE_MAX = 64;

/** Connections that outlive a fetch, for the next one from the same host under the same policy. */
export class MediaConnections {
  readonly #plain: HttpAgent;
  readonly #secure: HttpsAgent;

  constructor({ keepAliveMs }: Pick<MediaPolicy, 'keepAliveMs'>) {
    const options = { keepAlive: true, timeout: keepAliveMs }; // idle connections do not keep the process alive
    this.#plain = bounded(new HttpAgent(options));
    this.#secure = bounded(new HttpsAgent(options));
  }

  agentFor(isSecure: boolean): HttpAgent {
    return isSecure ? this.#secure : this.#plain;
  }
}

function bounded<Kind extends HttpAgent>(agent: Kind): Kind {
  const keep = agent.keepSocketAlive.bind(agent);
  // Node closes a connection when this returns false; its types omit the return value.
  agent.keepSocketAlive = (socket) => idleOf(agent) < IDLE_MAX && keep(socket);
  return agent;
}

function idleOf({ freeSockets }: HttpAgent): number {
  return Object.values(freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
}

/**
 * Budget of the bytes in all media of one request, taken as they are read: many small media cost as much as a large
 * one.
 */
export class MediaBudget {
  readonly #bytesMax: number;
  #taken = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Takes bytes. @throws ServeError `invalid_value` when the media of the request exceed the budget */
  take(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken > this.#bytesMax) {
      const message = `the media of a request may have ${this.#bytesMax} bytes in total`;
      throw overLimit('media_bytes', message, { param: 'messages', worker: 'InvalidArgument' });
    }
  }
}
