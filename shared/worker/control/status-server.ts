import { createReadStream } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { PortRange } from '../../config/index.ts';
import type { CheckedFile, ModelCard } from '../../discovery/index.ts';
import type { Logger, WorkerMetrics } from '../../telemetry/index.ts';
import type { WorkerAddress } from '../options.ts';
import { controlOf } from './control-server.ts';
import type { EndpointHealth } from './endpoint-health.ts';
import { type SmallServer, startSmallServer } from './small-server.ts';

/** A model whose files may be fetched. */
interface ServedFiles {
  readonly address: WorkerAddress;
  readonly card: Pick<ModelCard, 'slug' | 'files'>;
}

export interface StatusServerOptions {
  readonly health: EndpointHealth;
  readonly metrics: Pick<WorkerMetrics, 'contentType' | 'render'>;
  readonly logger: Logger;
  /**
   * Returns the worker's model, once it serves. The server serves the files that the model's card names. Absent = no
   * files.
   */
  model?(): ServedFiles | undefined;
  /** Ports to try (`DYN_SYSTEM_PORT`). */
  readonly ports: PortRange;
  /** Host to listen on (`DYN_SYSTEM_HOST`). @default 0.0.0.0 */
  readonly host?: string;
  /** Path of the health page (`DYN_SYSTEM_HEALTH_PATH`). @default `/health` */
  readonly healthPath?: string;
  /** Path of the liveness page (`DYN_SYSTEM_LIVE_PATH`). @default `/live` */
  readonly livePath?: string;
}

/**
 * Serves health, metrics and model files of a worker process to every client, because nothing here changes the worker.
 * Start it before the engine loads: it answers 503 until then. A worker that drains or sleeps is not healthy, but live.
 *
 * @throws Error with a text for the operator if the port is not available
 */
export async function startStatusServer(options: StatusServerOptions): Promise<SmallServer> {
  const { host = '0.0.0.0', ports, logger } = options;
  const place = { name: 'status server', host, ports, portSetting: 'DYN_SYSTEM_PORT', logger };
  return startSmallServer(place, (request, response) => answer(options, request, response));
}

async function answer(options: StatusServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { health, metrics, healthPath = '/health', livePath = '/live' } = options;
  const path = (request.url ?? '/').split('?', 1)[0];
  if (controlOf(request.method ?? '', path ?? '') !== undefined) {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ status: 'error', message: 'control routes are on a port of their own: STATOR_CONTROL_PORT' }),
    );
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
  } else if (path === healthPath || path === livePath) {
    const isWell = path === livePath ? health.isLive : health.status === 'ready';
    response.writeHead(isWell ? 200 : 503, { 'content-type': 'text/plain' });
    response.end(JSON.stringify(health.report()));
  } else if (path === '/metrics') {
    const text = metrics.render();
    response.writeHead(200, { 'content-type': metrics.contentType }).end(text);
  } else if (path?.startsWith('/v1/metadata/') === true) {
    await answerFile(fileOf(path, options.model?.()), request.method ?? 'GET', response);
  } else {
    response.writeHead(404).end();
  }
}

/**
 * Returns the file of `/v1/metadata/{namespace}/{component}/{endpoint}/{slug}/_base/{file}`. It must be one that the
 * card names, by its role or its name on disk, so that no other file on the disk can be read. Returns undefined for any
 * other name.
 */
function fileOf(path: string, served: ServedFiles | undefined): CheckedFile | undefined {
  if (served === undefined) return undefined;
  const { address, card } = served;
  const start = `/${metadataPath(address, card)}/`;
  if (!path.startsWith(start)) return undefined;
  const name = path.slice(start.length);
  const isNamed = ([role, file]: [string, CheckedFile]): boolean =>
    [role, basename(file.path)].some((known) => encodeURIComponent(known) === name);
  return Object.entries(card.files).find(isNamed)?.[1];
}

/** Returns the path under which the files of a model are served, without slashes around it. */
export function metadataPath(
  { namespace, component, endpoint }: WorkerAddress,
  { slug }: Pick<ModelCard, 'slug'>,
): string {
  const place = [namespace, component, endpoint, slug].map(encodeURIComponent).join('/');
  return `v1/metadata/${place}/_base`;
}

/** Sends `file` with its checksum, so that a reader knows which file it is without computing the checksum. */
async function answerFile(file: CheckedFile | undefined, method: string, response: ServerResponse): Promise<void> {
  if (file === undefined) {
    response.writeHead(404).end();
    return;
  }
  const headers = { 'content-type': 'application/octet-stream', etag: `"${file.checksum}"` };
  if (method === 'HEAD') {
    response.writeHead(200, { ...headers, 'content-length': file.size }).end();
    return;
  }
  const stream = createReadStream(file.path);
  stream.once('open', () => response.writeHead(200, { ...headers, 'content-length': file.size }));
  await pipeline(stream, response);
}
