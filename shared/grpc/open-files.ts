import { readFile } from 'node:fs/promises';

/** Where Linux tells a process its limits. */
const LIMITS_FILE = '/proc/self/limits';
const CONNECTIONS_MAX = 8192;
/** Without any the server would be useless. */
const CONNECTIONS_MIN = 16;

/** Default limit of a listener's connections: half of the files that the process may open stay for other uses. */
export async function defaultConnectionsMax(): Promise<number> {
  const files = openFilesIn(await readFile(LIMITS_FILE, 'latin1').catch(() => '')); // other systems have no such file
  return Math.max(CONNECTIONS_MIN, Math.min(CONNECTIONS_MAX, Math.floor((files ?? Number.POSITIVE_INFINITY) / 2)));
}

/** The soft limit of open files; undefined where there is none. @param limits text of `LIMITS_FILE` */
function openFilesIn(limits: string): number | undefined {
  const digits = /^Max open files +(\d+)/m.exec(limits)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
