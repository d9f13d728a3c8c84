import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { examineFolderClock } from '../../../../shared/commands/doctor/folder-clock.ts';

const NOW_SECS = 1_700_000_000;

describe('the dates of the files in a shared folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'doctor-clock-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function write(name: string, secs: number): void {
    mkdirSync(join(folder, 'v1/instances'), { recursive: true });
    writeFileSync(join(folder, 'v1/instances', name), '{}');
    utimesSync(join(folder, 'v1/instances', name), secs, secs);
  }

  it('may be old, as a worker that was killed leaves them', async () => {
    expect(await examineFolderClock(folder, NOW_SECS * 1000)).toEqual([]);
    write('a', NOW_SECS - 3600);
    write('b', NOW_SECS + 1);
    expect(await examineFolderClock(folder, NOW_SECS * 1000)).toEqual([]);
  });

  it('must not lie in the future', async () => {
    write('a', NOW_SECS);
    write('b', NOW_SECS + 30);
    expect(await examineFolderClock(folder, NOW_SECS * 1000)).toMatchObject([
      { verdict: 'fails', says: "files are dated 30 s ahead of this machine's clock" },
    ]);
  });
});
