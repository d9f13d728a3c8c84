import { readFile } from 'node:fs/promises';

/** File in which a process reads its own limits on Linux. */
const LIMITS_FILE = '/proc/self/limits';
const CONNECTIONS_MAX = 8192;
/** Lowest result, for a process that may open hardly any files, because a server needs some connections. */
const CONNECTIONS_MIN = 16;

/** Returns the default limit of a listener's connections: half of the files that the process may open. */
export async function defaultConnectionsMax(): Promise<number> {
  const files = openFilesIn(await readFile(LIMITS_FILE, 'latin1').catch(() => '')); // other systems have no such file
  return Math.max(CONNECTIONS_MIN, Math.min(CONNECTIONS_MAX, Math.floor((files ?? Number.POSITIVE_INFINITY) / 2)));
}

/** Returns the soft limit of open files; undefined if there is none. @param limits text of `LIMITS_FILE` */
function openFilesIn(limits: string): number | undefined {
  const digits = /^Max open files +(\d+)/m.exec(limits)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
