import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FrameSink, HttpExchange } from '../exchange/exchange.ts';

const unpack = promisify(gunzip);

/** The parts of an exchange that a file needs. */
export interface AssetPlace extends Pick<HttpExchange, 'header' | 'head'> {
  readonly sink: Pick<FrameSink, 'write' | 'end'>;
}

/**
 * Sends a file of a page. The package holds such files compressed, a fifth of their size, and browsers take them so.
 * @param headers besides those about the content
 */
export async function sendAsset(
  exchange: AssetPlace,
  path: string,
  type: string,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  // A function and the sources have them uncompressed
  const packed = await readFile(`${path}.gz`).catch(() => undefined);
  const takesPacked = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(exchange.header('accept-encoding') ?? '');
  const bytes = packed === undefined ? await readFile(path) : takesPacked ? packed : await unpack(packed);
  exchange.head(200, {
    'content-type': type,
    'content-length': String(bytes.length),
    vary: 'accept-encoding',
    ...(bytes === packed ? { 'content-encoding': 'gzip' } : {}),
    ...headers,
  });
  exchange.sink.write(bytes);
  exchange.sink.end();
}

/**
 * Returns a folder of assets: beside the bundles, or at `fromRoot` if the process runs from sources; undefined if there
 * is neither.
 * @param fromRoot path below the root of the repository
 */
export function assetFolder(name: string, fromRoot: string): string | undefined {
  const here = dirname(fileURLToPath(import.meta.url));
  const places = [join(here, name), join(here, '..', name), join(here, '../../../..', fromRoot)];
  return places.find((place) => existsSync(place));
}
