import { lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiscoveryError } from '../options.ts';

/** Where processes of one user meet when nobody names a folder: below the temporary folder, a name of the user's own. */
export function userFolderPath(): string {
  return join(tmpdir(), `dynamo_store_kv-${process.getuid?.() ?? 'user'}`);
}

/**
 * Makes `path` for this user alone, or checks that it is so: anybody may make a folder of that name in the temporary folder
 * first, and whoever can write it decides where requests go.
 *
 * @throws DiscoveryError `misconfigured` when it is a link or no folder, belongs to another user, or others may write or read it
 */
export async function makeOwnFolder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const { isFolder, uid, mode } = await look(path);
  const fault = !isFolder
    ? 'is a link or no folder'
    : uid !== (process.getuid?.() ?? uid)
      ? `belongs to another user (${uid})`
      : (mode & 0o077) !== 0
        ? `is open to other users (mode ${(mode & 0o777).toString(8)}; needed: 700)`
        : undefined;
  if (fault === undefined) return;
  const hint = 'Remove it, or set DYN_FILE_KV to a folder that only trusted processes can write';
  throw new DiscoveryError('misconfigured', `the discovery folder ${path} ${fault}. ${hint}`);
}

/** @throws DiscoveryError `misconfigured` when a link stands where a folder of records should be: it would be read, and swept, elsewhere */
export async function checkRealFolder(path: string): Promise<void> {
  if ((await look(path)).isFolder) return;
  throw new DiscoveryError('misconfigured', `${path} is a link or no folder; records are kept in real folders only`);
}

async function look(path: string): Promise<{ isFolder: boolean; uid: number; mode: number }> {
  const status = await lstat(path);
  return { isFolder: status.isDirectory(), uid: status.uid, mode: status.mode };
}
