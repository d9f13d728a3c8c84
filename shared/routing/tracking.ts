import { readFile } from 'node:fs/promises';
import type { RouterSettings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { KvRouterConfigError } from '../router/index.ts';
import type { TrackingHash } from '../router/tracking/index.ts';

/**
 * The names of running requests' blocks (`--router-tracking-hash`); undefined = the public ones. The code of the others is
 * loaded where they are asked for.
 * @throws KvRouterConfigError for a key that cannot be read; the message says nothing of what is in the file
 */
export async function openTracking(settings: RouterSettings): Promise<TrackingHash | undefined> {
  const { routerTrackingHash, routerTrackingKeyFile: path = '', routerTrackingKeyId: keyId = '' } = settings;
  if (routerTrackingHash !== 'keyed-xxh3-v1') return undefined;
  const { createKeyedTracking, KEY_BYTES } = await import('../router/tracking/index.ts');
  const field = 'router_tracking_key_file';
  const key = await readFile(path).catch((thrown: unknown) => {
    throw new KvRouterConfigError(field, `--router-tracking-key-file cannot be read: ${reasonOf(thrown)}`);
  });
  if (key.length !== KEY_BYTES) {
    throw new KvRouterConfigError(field, `--router-tracking-key-file has ${key.length} bytes, not ${KEY_BYTES}`);
  }
  return createKeyedTracking({ key, keyId });
}
