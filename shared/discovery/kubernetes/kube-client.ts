import * as http from 'node:http';
import * as https from 'node:https';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { KubeAccess, KubeCredentials } from './access.ts';
import { failureOf, KubeFailure, NO_ANSWER, toKubeFailure } from './kube-errors.ts';

/** One call to the API. */
export interface KubeCall {
  /** @default GET */
  readonly method?: 'DELETE' | 'GET' | 'PATCH' | 'PUT';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  /** Kind of the body. @default application/json */
  readonly contentType?: string;
}

/** A watch that is open. */
export interface OpenWatch {
  /** Ends it. `ended` is not called any more. */
  close(): void;
}

export interface KubeClientOptions {
  readonly access: KubeAccess;
  readonly clock: Clock;
}

/** Content type of a server-side apply; JSON is YAML. */
export const APPLY = 'application/apply-patch+yaml';
export const MERGE = 'application/merge-patch+json';

/** Time limit of one call, with its answer: a page of 500 large objects takes a second or two. */
const CALL_MS_MAX = 10_000;
/** Bytes of one answer, once it is unpacked. */
const ANSWER_BYTES_MAX = 256 << 20;
/** Characters of one event of a watch; the store of a cluster takes objects of about 1.5 MiB. */
const EVENT_CHARACTERS_MAX = 16 << 20;
/** Calls at the same time; watches do not count. */
const SOCKETS_MAX = 8;
/** Pause after which a silent connection is probed by TCP. */
const PROBE_MS = 15_000;
/** Failures of a kept connection that the server had closed. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Client of the Kubernetes API: JSON over HTTP, with watches. All calls that are made of it may be repeated: reads,
 * server-side applies, merges, removals of one object by its uid, and updates of one version. So a call on a connection
 * that had been closed, or with credentials that had ended, is sent once more. Otherwise the caller decides whether to
 * try again.
 */
export class KubeClient {
  readonly #access: KubeAccess;
  readonly #clock: Clock;
  readonly #calls: http.Agent;
  readonly #watches: http.Agent;
  readonly #request: typeof https.request;
  #isClosed = false;

  constructor({ access, clock }: KubeClientOptions) {
    this.#access = access;
    this.#clock = clock;
    const { Agent, request } = access.server.protocol === 'https:' ? https : http;
    this.#request = request as typeof https.request;
    this.#calls = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });
    this.#watches = new Agent({ keepAlive: true, keepAliveMsecs: PROBE_MS });
  }

  /** Address for messages. */
  get server(): string {
    return this.#access.server.origin;
  }

  /** Asks once. @throws KubeFailure, DiscoveryError for broken credentials, or the reason of the signal */
  async ask(call: KubeCall, signal: AbortSignal): Promise<UnknownRecord> {
    signal.throwIfAborted();
    const lateMessage = `no answer within ${CALL_MS_MAX} ms`;
    const limit = { clock: this.#clock, timeoutMs: CALL_MS_MAX, signal, lateMessage };
    try {
      return await withDeadline(limit, async (ending) => {
        const response = await this.#send(call, this.#calls, ending);
        return recordOf(await textOf(response));
      });
    } catch (thrown) {
      signal.throwIfAborted();
      throw toKubeFailure(thrown);
    }
  }

  /**
   * Opens a watch: an answer that has a JSON text on each line, and does not end. Resolves once the server has accepted
   * it.
   * @param hear called with each event
   * @param ended called once when the answer ends or breaks
   */
  async watch(
    call: KubeCall,
    hear: (event: UnknownRecord) => void,
    ended: (failure: Error | undefined) => void,
    signal: AbortSignal,
  ): Promise<OpenWatch> {
    const closing = new AbortController();
    const lateMessage = `no answer within ${CALL_MS_MAX} ms`;
    const limit = { clock: this.#clock, timeoutMs: CALL_MS_MAX, signal, lateMessage };
    let response: http.IncomingMessage;
    try {
      response = await withDeadline(limit, (ending) => {
        const abandon = (): void => closing.abort(ending.reason);
        ending.addEventListener('abort', abandon, { once: true });
        return this.#send(call, this.#watches, closing.signal).finally(() =>
          ending.removeEventListener('abort', abandon),
        );
      });
    } catch (thrown) {
      closing.abort();
      signal.throwIfAborted();
      throw toKubeFailure(thrown);
    }
    readLines(response, hear, ended);
    return {
      close: () => {
        response.removeAllListeners();
        response.on('error', () => {}); // the abort below is no failure
        closing.abort();
        response.destroy();
      },
    };
  }

  /** Ends all connections, and refuses new calls. */
  close(): void {
    this.#isClosed = true;
    this.#calls.destroy();
    this.#watches.destroy();
  }

  /** Sends a call, again if its credentials had ended. Resolves with an answer of status 2xx. */
  async #send(call: KubeCall, agent: http.Agent, signal: AbortSignal): Promise<http.IncomingMessage> {
    for (let isRefused = false; ; isRefused = true) {
      const credentials = await this.#access.credentials(isRefused, signal);
      signal.throwIfAborted();
      const response = await this.#sendOnce(call, agent, credentials, signal);
      const { statusCode: status = NO_ANSWER } = response;
      if (status >= 200 && status < 300) return response;
      const failure = failureOf(status, recordOrEmpty(await textOf(response)));
      if (!failure.needsCredentials || isRefused) throw failure;
    }
  }

  #sendOnce(
    { method = 'GET', path, query = {}, body, contentType = 'application/json' }: KubeCall,
    agent: http.Agent,
    { token, basic, cert, key }: KubeCredentials,
    signal: AbortSignal,
  ): Promise<http.IncomingMessage> {
    if (this.#isClosed) throw new KubeFailure(NO_ANSWER, 'the client of the Kubernetes API was closed');
    const { server, ca, serverName, isUnchecked = false } = this.#access;
    const url = new URL(`${server.pathname.replace(/\/$/, '')}${path}`, server);
    url.search = new URLSearchParams(query).toString();
    const text = body === undefined ? undefined : JSON.stringify(body);
    const basicText = basic === undefined ? undefined : `Basic ${Buffer.from(basic).toString('base64')}`;
    const authorization = token === undefined ? basicText : `Bearer ${token}`;
    const options: https.RequestOptions = {
      method,
      agent,
      signal,
      headers: {
        accept: 'application/json',
        // The server packs large answers: a list of 1000 pods is one megabyte instead of ten.
        ...(agent === this.#calls && { 'accept-encoding': 'gzip' }),
        ...(text !== undefined && { 'content-type': contentType, 'content-length': Buffer.byteLength(text) }),
        ...(authorization !== undefined && { authorization }),
      },
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && key !== undefined && { cert, key }),
      ...(serverName !== undefined && { servername: serverName }),
      ...(isUnchecked && { rejectUnauthorized: false }),
    };
    return new Promise((resolve, reject) => {
      const send = (): void => {
        const sent = this.#request(url, options, resolve);
        const onError = (error: NodeJS.ErrnoException): void => {
          if (sent.reusedSocket && CLOSED.has(error.code ?? '') && !signal.aborted) send();
          else reject(error);
        };
        sent.on('error', onError).end(text);
      };
      send();
    });
  }
}

/** Passes each line of an answer on as JSON, until the answer ends or a line is not JSON. */
function readLines(
  response: http.IncomingMessage,
  hear: (event: UnknownRecord) => void,
  ended: (failure: Error | undefined) => void,
): void {
  let rest = '';
  const end = (failure?: Error): void => {
    response.removeAllListeners();
    response.on('error', () => {}); // it has ended already
    response.destroy();
    ended(failure);
  };
  response.setEncoding('utf8');
  response.on('data', (part: string) => {
    const lines = (rest + part).split('\n');
    rest = lines.pop() ?? '';
    try {
      if (rest.length > EVENT_CHARACTERS_MAX) throw new KubeFailure(NO_ANSWER, 'an event of a watch is too long');
      for (const line of lines) if (line !== '') hear(recordOf(line));
    } catch (thrown) {
      end(toKubeFailure(thrown));
    }
  });
  response.on('error', (error) => end(toKubeFailure(error)));
  response.on('end', () => end());
  response.on('close', () => end());
}

async function textOf(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of unpacked(response) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new KubeFailure(NO_ANSWER, `an answer has more than ${ANSWER_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Returns an answer without its compression. An answer that breaks off, or is not what it says, fails the reader. */
function unpacked(response: http.IncomingMessage): Readable {
  if (response.headers['content-encoding'] !== 'gzip') return response;
  return pipeline(response, createGunzip(), () => {}); // the reader of the last stream gets the failure
}

function recordOf(text: string): UnknownRecord {
  const record = asRecord(JSON.parse(text));
  if (record === undefined) throw new KubeFailure(NO_ANSWER, 'an answer is not an object');
  return record;
}

function recordOrEmpty(text: string): UnknownRecord {
  try {
    return recordOf(text);
  } catch {
    return {}; // a page of a proxy: the status says enough
  }
}
