import { access, constants, lstat, mkdir } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { stateFolder, USER_SUFFIX } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { encodeSegment } from '../../planes/index.ts';
import { DiscoveryError } from '../options.ts';

/** Folder that the processes of a user share. */
export interface UserFolder {
  readonly path: string;
  /** Reason why the folder is in the temporary folder, if it is there. */
  readonly insteadOf?: string;
}

/**
 * Returns the folder that the processes of this user on this machine share if no setting names one. It is among the
 * user's other state, or in the temporary folder if that cannot be written.
 */
export async function userFolder(): Promise<UserFolder> {
  const path = statePath();
  try {
    await makeOwnFolder(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    return { path };
  } catch (error) {
    if (error instanceof DiscoveryError) return { path }; // each use of the folder reports it
    const temporary = join(tmpdir(), `dynamo_store_kv${USER_SUFFIX}`);
    return { path: temporary, insteadOf: `${path} cannot be used (${reasonOf(error)})` };
  }
}

/**
 * Name of this machine in the path: several machines may share a home, and their processes do not reach each other on
 * loopback. On macOS homes are not shared, but the name of the machine changes with the network.
 */
function statePath(): string {
  const folder = join(stateFolder(process.env), 'discovery');
  return process.platform === 'darwin' ? folder : join(folder, encodeSegment(hostname()));
}

/**
 * Makes `path` for this user only, or checks that it is. In the temporary folder, any user may make a folder of that
 * name first, and a user who can write it decides where requests go.
 *
 * @throws DiscoveryError `misconfigured` if it is a link or not a folder, belongs to another user, or others may write
 * or read it
 */
export async function makeOwnFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const status = await lstat(path);
  const { uid, mode } = status;
  const fault = !status.isDirectory()
    ? 'is a link or not a folder'
    : uid !== (process.getuid?.() ?? uid)
      ? `belongs to another user (${uid})`
      : (mode & 0o077) !== 0
        ? `is open to other users (mode ${(mode & 0o777).toString(8)}; needed: 700)`
        : undefined;
  if (fault === undefined) return;
  const hint = 'Remove it, or set DYN_FILE_KV to a folder that only trusted processes can write';
  throw new DiscoveryError('misconfigured', `the discovery folder ${path} ${fault}. ${hint}`);
}
