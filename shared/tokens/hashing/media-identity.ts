import { createHash } from 'node:crypto';

/**
 * Returns the identity of a medium from its content: 64 hex digits, which engines use as its own identifier and report
 * in their KV events. Frontends and workers must compute the same one.
 *
 * @param url a `data:` URL; the identity of any other URL stands for the place, not for the content
 * @param reading options by which the engine reads the medium, if the request gives some
 */
export function mediaIdentity(url: string, reading?: unknown): string {
  const hash = createHash('sha256').update(url);
  if (reading !== undefined) hash.update(`\n${JSON.stringify(reading)}`);
  return hash.digest('hex');
}
