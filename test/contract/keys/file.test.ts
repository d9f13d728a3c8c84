import { rmSync, writeFileSync } from 'node:fs';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FileKeyStore } from '../../../shared/access/keys/file-key-store.ts';
import { systemClock } from '../../../shared/clock/index.ts';
import { describeKeyStore, someKey } from './key-store.contract.ts';

async function folder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'stator-keys-'));
}

describeKeyStore('file', async () => {
  const path = await folder();
  const file = join(path, 'keys.json');
  const [writer, reader] = [new FileKeyStore(file), new FileKeyStore(file)];
  return { writer, reader, close: () => rm(path, { recursive: true }) };
});

describe('the file of keys', () => {
  let path: string;
  let file: string;
  beforeEach(async () => {
    path = await folder();
    file = join(path, 'deep', 'keys.json');
  });
  afterEach(() => rm(path, { recursive: true }));

  it('is its user’s own, is replaced whole, and leaves nothing beside it', async () => {
    const store = new FileKeyStore(file);
    await store.put(someKey());
    const first = await stat(file);
    await store.put(someKey());
    const second = await stat(file);
    expect([first.mode & 0o777, second.mode & 0o777]).toEqual([0o600, 0o600]);
    expect(second.ino).not.toBe(first.ino);
    expect(await readdir(join(path, 'deep'))).toEqual(['keys.json']);
  });

  it('that is not there has no keys', async () => {
    expect(await new FileKeyStore(file).list()).toEqual([]);
  });

  it.each([
    ['{', 'is not a file of keys'],
    ['[]', 'has no list "keys"'],
    ['{"keys":[{"id":"x"}]}', 'id must be the id of a key'],
    [JSON.stringify({ keys: [{ ...someKey(), scopes: ['root'] }] }), 'scopes must be of inference, admin, metrics'],
    [JSON.stringify({ keys: [{ ...someKey(), owner: 'a b' }] }), 'owner must be a text of printable ASCII'],
    [JSON.stringify({ keys: [{ ...someKey(), limits: { tokensPerDay: 0 } }] }), 'tokensPerDay must be from 1 to'],
  ])('that says %s is refused with its name and the field', async (text, reason) => {
    const store = new FileKeyStore(file);
    await store.put(someKey());
    await writeFile(file, text);
    const refused = await store.list().catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'misconfigured' });
    expect(String(refused)).toContain(reason);
    expect(String(refused)).toContain(file);
  });

  it('that others may write is refused', async () => {
    const store = new FileKeyStore(file);
    const record = someKey();
    await store.put(record);
    await chmod(file, 0o622);
    await expect(new FileKeyStore(file).get(record.id)).rejects.toMatchObject({ code: 'misconfigured' });
  });

  it.each([0, 3_600_000, -3_600_000])(
    'is written although a writer has died over it, and not while one is at it, by a clock %d ms off',
    async (offMs) => {
      await new FileKeyStore(file).put(someKey());
      await writeFile(`${file}.lock`, '');
      let passedMs = 0;
      const nowMs = (): number => systemClock.nowMs() + passedMs;
      const clock = { ...systemClock, nowMs, wallMs: () => systemClock.wallMs() + offMs };
      const store = new FileKeyStore(file, clock);
      const late = store.put(someKey(), AbortSignal.timeout(100));
      await expect(late).rejects.toMatchObject({ name: 'TimeoutError' });
      passedMs = 4000;
      await store.put(someKey());
      expect(JSON.parse(await readFile(file, 'utf8')).keys).toHaveLength(2);
      expect(await readdir(join(path, 'deep'))).toEqual(['keys.json']);
    },
  );

  it('is not written by who stood still while another one took the lock from it', async () => {
    const store = new FileKeyStore(file);
    const kept = someKey();
    await store.put(kept);
    const lock = `${file}.lock`;
    const change = store.update(kept.id, (record) => {
      rmSync(lock);
      writeFileSync(lock, ''); // of the other one
      return { ...record, name: 'late' };
    });
    await expect(change).rejects.toThrow('was taken by another process');
    expect(await store.get(kept.id)).toEqual(kept);
    expect(await readdir(join(path, 'deep'))).toEqual(['keys.json', 'keys.json.lock']);
  });
});
