import { mkdtemp, open, readdir, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMemorySnapshotStore, openFileSnapshotStore } from '../../../shared/router/state/index.ts';
import { describeSnapshotStore } from '../snapshot-store.ts';

const never = new AbortController().signal;

describeSnapshotStore('memory', async () => {
  const store = createMemorySnapshotStore();
  return { store, close: () => store.close() };
});

describeSnapshotStore('file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'snapshots-'));
  return {
    store: await openFileSnapshotStore(folder),
    reopen: () => openFileSnapshotStore(folder),
    async damage(name) {
      const file = await open(join(folder, name), 'r+');
      await file.write(Uint8Array.of(1), 0, 1, 50_000);
      await file.close();
    },
    close: () => rm(folder, { recursive: true }),
  };
});

describe('the memory store', () => {
  it('says that it is full', async () => {
    const store = createMemorySnapshotStore(100);
    await store.put('a', [new Uint8Array(60)], never);
    await expect(store.put('b', [new Uint8Array(60)], never)).rejects.toThrow(/full/);
    expect(await store.list(never)).toEqual(['a']);
  });
});

describe('the file store', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'snapshots-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('takes a file that was cut short for damaged, at whatever length', async () => {
    const store = await openFileSnapshotStore(folder);
    await store.put('a', [new Uint8Array(1000)], never);
    const { size } = await stat(join(folder, 'a'));
    for (const length of [size - 1, 500, 10, 0]) {
      await truncate(join(folder, 'a'), length);
      await expect(store.get('a', never)).rejects.toThrow(/"a".*damaged/);
    }
  });

  it('clears away what a crashed writer left an hour ago, and nothing else', async () => {
    const store = await openFileSnapshotStore(folder);
    for (const name of ['.tmp-old', '.tmp-new', '.keep']) await writeFile(join(folder, name), 'x');
    await utimes(join(folder, '.tmp-old'), 1, 1);
    await store.put('a', [], never);
    expect((await readdir(folder)).sort()).toEqual(['.keep', '.tmp-new', 'a']);
    expect(await store.list(never)).toEqual(['a']);
  });

  it('refuses names that lead elsewhere', async () => {
    const store = await openFileSnapshotStore(folder);
    for (const name of ['../a', '.a', 'a/b', '', 'a b']) {
      await expect(store.put(name, [], never)).rejects.toThrow(RangeError);
      await expect(store.get(name, never)).rejects.toThrow(RangeError);
    }
  });

  it('names its folder when the disk does not take more', async () => {
    const store = await openFileSnapshotStore(folder);
    await rm(folder, { recursive: true });
    await expect(store.put('a', [], never)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining(folder),
    });
    await openFileSnapshotStore(folder);
  });
});
