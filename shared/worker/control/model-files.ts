import { createReadStream } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { CheckedFile, ModelCard } from '../../discovery/index.ts';
import type { WorkerAddress } from '../options.ts';

/** A model whose files may be fetched. */
export interface ServedFiles {
  readonly address: WorkerAddress;
  readonly card: Pick<ModelCard, 'slug' | 'files'>;
}

/**
 * The file behind `/v1/metadata/{namespace}/{component}/{endpoint}/{slug}/_base/{file}`:
 * one that the card names, by the name that it has on disk; undefined = none. Nothing else on the disk can be asked for.
 */
export function fileOf(path: string, served: ServedFiles | undefined): CheckedFile | undefined {
  if (served === undefined) return undefined;
  const { address, card } = served;
  const place = [address.namespace, address.component, address.endpoint, card.slug].map(encodeURIComponent).join('/');
  const start = `/v1/metadata/${place}/_base/`;
  if (!path.startsWith(start)) return undefined;
  const name = path.slice(start.length);
  return Object.values(card.files).find((file) => encodeURIComponent(basename(file.path)) === name);
}

/** Sends `file`; its checksum goes along, so that a reader need not compute it to know which one it is. */
export async function answerFile(
  file: CheckedFile | undefined,
  method: string,
  response: ServerResponse,
): Promise<void> {
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
