import { homedir, tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Environment } from './values/value-type.ts';

/** Suffix that tells this user's files in the temporary folder from those of other users. */
export const USER_SUFFIX = `-${process.getuid?.() ?? 'user'}`;

/**
 * Returns the home folder of the user; undefined if neither `HOME` nor the system's list of users gives one, as in some
 * containers.
 */
function userHome(): string | undefined {
  try {
    const home = homedir();
    return isAbsolute(home) ? home : undefined;
  } catch {
    return undefined; // the system does not know the user
  }
}

/**
 * Returns the folder for a user's files: the home folder, or the user's own folder below the temporary one if there is
 * no home.
 */
export function homeFolder(): string {
  return userHome() ?? join(tmpdir(), `stator${USER_SUFFIX}`);
}

/**
 * Returns the folder in which the processes of a user keep what outlives them: `stator` in `$XDG_STATE_HOME`, else in
 * `~/.local/state`.
 */
export function stateFolder(env: Environment): string {
  const { XDG_STATE_HOME: named = '' } = env;
  return join(isAbsolute(named) ? named : join(homeFolder(), '.local', 'state'), 'stator');
}
