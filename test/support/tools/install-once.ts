import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const LOCK_WAIT_MS_MAX = 15 * 60_000;
const LOCK_POLL_MS = 250;

/**
 * Fills `folder` exactly once, even with several test runs at a time. `fill` works in a folder beside it, which is
 * renamed when complete, so no run sees a half-made installation. Waits for a run that is already filling it.
 */
export async function installOnce(
  folder: string,
  isInstalled: () => Promise<boolean>,
  fill: (scratchFolder: string) => Promise<void>,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const lockPath = `${folder}.lock`;
  await acquireLock(lockPath);
  const scratchFolder = `${folder}.part-${process.pid}`;
  try {
    if (await isInstalled()) return; // another run made it while this one waited
    await rm(folder, { recursive: true, force: true });
    await fill(scratchFolder);
    await rename(scratchFolder, folder);
  } finally {
    await rm(scratchFolder, { recursive: true, force: true });
    await rm(lockPath, { force: true });
  }
}

async function acquireLock(lockPath: string): Promise<void> {
  const deadlineMs = Date.now() + LOCK_WAIT_MS_MAX;
  while (!(await tryLock(lockPath))) {
    if (Date.now() > deadlineMs)
      throw new Error(`${lockPath} is still held after ${LOCK_WAIT_MS_MAX / 60_000} minutes`);
    await dropLockOfDeadProcess(lockPath);
    await sleep(LOCK_POLL_MS);
  }
}

async function tryLock(lockPath: string): Promise<boolean> {
  try {
    const file = await open(lockPath, 'wx');
    await file.writeFile(String(process.pid));
    await file.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function dropLockOfDeadProcess(lockPath: string): Promise<void> {
  const owner = Number(await readFile(lockPath, 'utf8').catch(() => '')); // already released: nothing to drop
  if (!(owner > 0)) return;
  try {
    process.kill(owner, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') await rm(lockPath, { force: true });
  }
}
