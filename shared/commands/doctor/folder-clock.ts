import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Finding } from './findings.ts';

/** Largest number of files whose dates are read. */
const READ_MAX = 256;
/** Difference that leases bear, in milliseconds. */
const AHEAD_MS_MAX = 2000;

/**
 * Compares the dates of the workers' files in a shared folder with this machine's clock. Leases live by these dates, so
 * files of another clock vanish too late.
 *
 * @param nowMs Unix time of this machine, in milliseconds
 */
export async function examineFolderClock(folder: string, nowMs: number): Promise<readonly Finding[]> {
  const instances = join(folder, 'v1', 'instances');
  const names = await readdir(instances).catch(() => []); // no worker has registered here
  const dates = await Promise.all(names.slice(0, READ_MAX).map((name) => dateOf(join(instances, name))));
  const aheadMs = Math.max(...dates, 0) - nowMs;
  if (aheadMs <= AHEAD_MS_MAX) return [];
  const says = `files are dated ${Math.round(aheadMs / 1000)} s ahead of this machine's clock`;
  const remedy = 'synchronise the clocks of the machines that share the folder';
  return [{ verdict: 'fails', about: `clock of ${folder}`, says, remedy }];
}

/** Returns 0 for a file that has left meanwhile. */
function dateOf(path: string): Promise<number> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );
}
