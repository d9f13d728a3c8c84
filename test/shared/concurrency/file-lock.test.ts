import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { withFileLock } from '../../../shared/concurrency/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'file-lock-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const failure = (what: string): Error => new Error(what);
const options = { clock: systemClock, failure };
let count = 0;
const pathOf = (): string => join(folder, `${count++}`, 'deep', 'log.lock');

/** Makes a lock as a process leaves it that died `seconds` ago. */
async function leftBehind(path: string, seconds: number): Promise<void> {
  await withFileLock(path, options, async () => {});
  await writeFile(path, 'of another process');
  const then = new Date(Date.now() - seconds * 1000);
  await utimes(path, then, then);
}

describe('work under a lock file', () => {
  it('is done by one at a time, and leaves nothing behind', async () => {
    const path = pathOf();
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    };
    await Promise.all(Array.from({ length: 20 }, () => withFileLock(path, options, work)));
    expect(most).toBe(1);
    expect(await readdir(join(path, '..'))).toEqual([]);
  });

  it('gives the lock back when it fails', async () => {
    const path = pathOf();
    await expect(withFileLock(path, options, () => Promise.reject(new Error('work')))).rejects.toThrow('work');
    expect(await withFileLock(path, options, async () => 'again')).toBe('again');
  });

  it('goes on where a process died, by one of many', async () => {
    const path = pathOf();
    await leftBehind(path, 31);
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 1));
      inside--;
    };
    await Promise.all(Array.from({ length: 30 }, () => withFileLock(path, options, work)));
    expect(most).toBe(1);
  });

  it('waits five seconds for another holder, and says so', async () => {
    const path = pathOf();
    await leftBehind(path, 20);
    const clock = new VirtualClock(0);
    const waiting = withFileLock(path, { clock, failure }, async () => {});
    const refused = expect(waiting).rejects.toThrow('is being written by another process');
    let isOver = false;
    void waiting.catch(() => {
      isOver = true;
    });
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(100);
    }
    await refused;
    expect(await readFile(path, 'utf8')).toBe('of another process');
  });

  it('leaves the lock of another one that took it meanwhile', async () => {
    const path = pathOf();
    await withFileLock(path, options, () => writeFile(path, 'of another process'));
    expect(await readFile(path, 'utf8')).toBe('of another process');
  });

  it('ends with its signal, and names what cannot be written', async () => {
    const path = pathOf();
    await leftBehind(path, 0);
    const stopped = { ...options, signal: AbortSignal.abort(new Error('stop')) };
    await expect(withFileLock(path, stopped, async () => {})).rejects.toThrow('stop');
    await writeFile(join(folder, 'file'), '');
    const underFile = join(folder, 'file', 'log.lock');
    await expect(withFileLock(underFile, options, async () => {})).rejects.toThrow('cannot be written');
  });
});
