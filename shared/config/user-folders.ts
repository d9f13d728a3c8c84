import { homedir, tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Environment } from './values/value-type.ts';

/** Tells what the process's user has of their own in the temporary folder from what others have there. */
export const USER_SUFFIX = `-${process.getuid?.() ?? 'user'}`;

/** The home of the process's user; undefined where neither `HOME` nor the system's list of users says one, as in some containers. */
function userHome(): string | undefined {
  try {
    const home = homedir();
    return isAbsolute(home) ? home : undefined;
  } catch {
    return undefined; // the system does not know the user
  }
}

/** Where a user's files go: the home, or a folder of the user's own below the temporary one where there is none. */
export function homeFolder(): string {
  return userHome() ?? join(tmpdir(), `stator${USER_SUFFIX}`);
}

/** Where the processes of a user keep what outlives them: `stator` in `$XDG_STATE_HOME`, else in `~/.local/state`. */
export function stateFolder(env: Environment): string {
  const { XDG_STATE_HOME: named = '' } = env;
  return join(isAbsolute(named) ? named : join(homeFolder(), '.local', 'state'), 'stator');
}
