import { createHash } from 'node:crypto';

/**
 * Names a medium by what it holds: 64 hex digits, which engines take for its own identifier and tell in their KV events. Frontends
 * and workers must find the same.
 *
 * @param url a `data:` URL; of another URL it names the place, not what lies there
 * @param reading how the engine is to read it, where the request says so
 */
export function mediaIdentity(url: string, reading?: unknown): string {
  const hash = createHash('sha256').update(url);
  if (reading !== undefined) hash.update(`\n${JSON.stringify(reading)}`);
  return hash.digest('hex');
}
