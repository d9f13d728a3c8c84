import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { FileLock } from '../../../shared/concurrency/index.ts';
import { FreezableClock } from '../../support/index.ts';
import { spawnTypeScript } from '../../support/spawn-typescript.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const LEFT_MS = 4000;
const WAIT_MS = 5000;
const HOUR_MS = 3_600_000;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'file-lock-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const failure = (what: string): Error => new Error(what);
let count = 0;
const pathOf = (): string => join(folder, `${count++}`, 'deep', 'log.lock');
const lockAt = (path: string, clock = systemClock): FileLock => new FileLock({ path, clock, failure });
/** The same that waits for long: where several take turns, or the machine is slow beside a clock that is fast. */
const patientAt = (path: string, clock = systemClock): FileLock =>
  new FileLock({ path, clock, failure, waitMsMax: HOUR_MS });
const nothing = async (): Promise<void> => {};

/** Makes a lock as a process leaves it that died, whose file has a time `offMs` from now. */
async function leftBehind(path: string, offMs = 0): Promise<void> {
  await lockAt(path).hold(undefined, nothing);
  await writeFile(path, 'of another process');
  const then = new Date(Date.now() + offMs);
  await utimes(path, then, then);
}

/** Lets time pass until `work` is over. Files are slower than a clock that is moved: they get their turns between its steps. */
async function passing<T>(clock: VirtualClock, work: Promise<T>): Promise<T> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  work.then(end, end);
  while (!isOver) {
    await clock.advance(10);
    await stat(folder);
    await stat(folder);
  }
  return work;
}

/** Work of which several may not be inside at once. */
function exclusive() {
  let inside = 0;
  const seen = { most: 0, times: 0 };
  const work = async (): Promise<void> => {
    seen.times++;
    seen.most = Math.max(seen.most, ++inside);
    await stat(folder);
    inside--;
  };
  return { seen, work };
}

describe('work under a lock file', () => {
  it('is done by one at a time, and leaves nothing behind', async () => {
    const path = pathOf();
    const { seen, work } = exclusive();
    await Promise.all(Array.from({ length: 20 }, () => patientAt(path).hold(undefined, work)));
    expect(seen).toEqual({ most: 1, times: 20 });
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('gives the lock back when it fails', async () => {
    const lock = lockAt(pathOf());
    await expect(lock.hold(undefined, () => Promise.reject(new Error('work')))).rejects.toThrow('work');
    expect(await lock.hold(undefined, async () => 'again')).toBe('again');
  });

  it('ends with its signal, and names what cannot be written', async () => {
    const path = pathOf();
    await leftBehind(path);
    await expect(lockAt(path).hold(AbortSignal.abort(new Error('stop')), nothing)).rejects.toThrow('stop');
    await writeFile(join(folder, 'file'), '');
    await expect(lockAt(join(folder, 'file', 'log.lock')).hold(undefined, nothing)).rejects.toThrow(
      'cannot be written',
    );
  });
});

describe('a lock that a process left when it died', () => {
  const offs = [0, HOUR_MS, -HOUR_MS];
  const cases = offs.flatMap((wallOffMs) => offs.map((fileOffMs) => [wallOffMs, fileOffMs] as const));
  it.each(cases)('is taken after 4 s by a clock %d ms off, from a file %d ms off', async (wallOffMs, fileOffMs) => {
    const path = pathOf();
    await leftBehind(path, fileOffMs);
    const clock = new VirtualClock();
    const lock = lockAt(path, new FreezableClock(clock, wallOffMs + Date.now() - clock.wallMs()));
    const takenMs = await passing(
      clock,
      lock.hold(undefined, async () => clock.nowMs()),
    );
    expect(takenMs).toBeGreaterThanOrEqual(LEFT_MS);
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is taken by one at a time, of many', async () => {
    const path = pathOf();
    await leftBehind(path);
    const clock = new VirtualClock();
    const { seen, work } = exclusive();
    await passing(clock, Promise.all(Array.from({ length: 8 }, () => patientAt(path, clock).hold(undefined, work))));
    expect(seen).toEqual({ most: 1, times: 8 });
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is taken within one wait, though another one died over removing it', async () => {
    const path = pathOf();
    await leftBehind(path);
    const { ino, ctimeNs } = await stat(path, { bigint: true });
    await writeFile(`${path}.${ino}-${ctimeNs}`, '');
    const clock = new VirtualClock();
    const { seen, work } = exclusive();
    await passing(clock, Promise.all(Array.from({ length: 2 }, () => lockAt(path, clock).hold(undefined, work))));
    expect(seen).toEqual({ most: 1, times: 2 });
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is taken by who has waited for it in several short waits', async () => {
    const path = pathOf();
    await leftBehind(path);
    const clock = new VirtualClock();
    const lock = lockAt(path, clock);
    for (const _ of [1, 2, 3, 4]) {
      const late = new AbortController();
      clock.after(900, () => late.abort(new Error('late')));
      await expect(passing(clock, lock.hold(late.signal, nothing))).rejects.toThrow('late');
    }
    const beganMs = clock.nowMs();
    const takenMs = await passing(
      clock,
      lock.hold(undefined, async () => clock.nowMs()),
    );
    expect(takenMs - beganMs).toBeLessThan(1000);
  });
});

describe('a lock whose holder lives', () => {
  it.each([0, HOUR_MS, -HOUR_MS])('is not taken by a clock %d ms off, however long it is held', async (offMs) => {
    const path = pathOf();
    const clock = new VirtualClock();
    const waiting = lockAt(path, new FreezableClock(clock, offMs));
    const work = lockAt(path, clock).hold(undefined, async (stillHeld) => {
      for (const _ of [1, 2, 3]) {
        await expect(waiting.hold(undefined, nothing)).rejects.toThrow('is being written by another process');
        await stillHeld();
      }
      return clock.nowMs();
    });
    expect(await passing(clock, work)).toBeGreaterThan(3 * WAIT_MS);
    expect(existsSync(path)).toBe(false);
  });

  it('stays with the process that took it from one that stood still, and the latter gets an error', async () => {
    const path = pathOf();
    const clock = new VirtualClock();
    const stopped = new FreezableClock(clock);
    const work = lockAt(path, stopped).hold(undefined, async (stillHeld) => {
      stopped.freeze();
      await passing(
        clock,
        lockAt(path, clock).hold(undefined, () => writeFile(path, 'of the other one')),
      );
      await writeFile(path, 'of a third one');
      await stillHeld();
    });
    await expect(work).rejects.toThrow('was taken by another process');
    expect(await readFile(path, 'utf8')).toBe('of a third one');
  });
});

describe('a lock between two processes', () => {
  const entry = new URL('./lock-process.ts', import.meta.url);
  const holding = async (path: string) => {
    const child = await spawnTypeScript(entry, [path]);
    await child.waitForOutput(/^held/m);
    return child;
  };
  /** A clock by which the 4 s are over soon; for holders that are gone. */
  const fast = { ...systemClock, nowMs: () => systemClock.nowMs() * 20 };

  it('is waited for, told to be held after five seconds, and given over', async () => {
    const path = pathOf();
    const child = await holding(path);
    await expect(lockAt(path).hold(undefined, nothing)).rejects.toThrow('is being written by another process');
    child.write('?\n');
    await child.waitForOutput(/still held/);
    child.endInput();
    expect(await lockAt(path).hold(undefined, async () => 'taken')).toBe('taken');
    await child.exited;
  });

  it('is taken from one that was killed', async () => {
    const path = pathOf();
    const child = await holding(path);
    await child.kill();
    expect(await patientAt(path, fast).hold(undefined, async () => 'taken')).toBe('taken');
  });

  it('is taken from one that was stopped, which does not take it back', async () => {
    const path = pathOf();
    const child = await holding(path);
    child.signal('SIGSTOP');
    await patientAt(path, fast).hold(undefined, async () => {
      child.signal('SIGCONT');
      child.write('?\n');
      await child.waitForOutput(/was taken by another process/);
      child.endInput();
      await child.exited;
      expect(existsSync(path)).toBe(true);
    });
    expect(existsSync(path)).toBe(false);
  });
});
