import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KeyRecord, KeyStore } from '../../../shared/access/index.ts';
import { newKeyId } from '../../../shared/access/keys/key-text.ts';

/** Stores over the same keys: what one process writes, another reads. */
export interface OpenedStores {
  readonly writer: KeyStore;
  readonly reader: KeyStore;
  close(): Promise<void>;
}

/** Returns a record with an id of its own. */
export function someKey(parts: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id: newKeyId(),
    name: 'ci — nightly',
    owner: 'team-a',
    digest: 'ab'.repeat(32),
    scopes: ['inference'],
    limits: {},
    createdMs: 1_700_000_000_000,
    ...parts,
  };
}

const FULL: Partial<KeyRecord> = {
  previous: { digest: 'cd'.repeat(32), untilMs: 1_700_000_500_000 },
  scopes: ['inference', 'admin', 'metrics'],
  models: ['a/b', 'c'],
  routes: ['/v1/chat/completions', '/v1/responses*'],
  limits: { requestsPerMinute: 60, tokensPerMinute: 100_000, tokensPerDay: 5_000_000 },
  expiresMs: 1_800_000_000_000,
  revokedMs: 1_750_000_000_000,
};

/** Tests what every store of keys promises. */
export function describeKeyStore(name: string, open: () => Promise<OpenedStores>): void {
  describe(`the ${name} store of keys`, () => {
    let stores: OpenedStores;
    beforeEach(async () => {
      stores = await open();
    });
    afterEach(() => stores.close());

    it.each([
      ['with the least', {}],
      ['with everything', FULL],
    ])('gives a record back %s', async (_, parts) => {
      const record = someKey(parts);
      await stores.writer.put(record);
      expect(await stores.reader.get(record.id)).toEqual(record);
    });

    it('has nothing under an id that was never put', async () => {
      const id = newKeyId();
      expect(await stores.reader.get(id)).toBeUndefined();
      expect(await stores.writer.update(id, (record) => record)).toBeUndefined();
      expect(await stores.writer.delete(id)).toBe(false);
    });

    it('keeps the first of two records with one id', async () => {
      const record = someKey();
      await stores.writer.put(record);
      const second = { ...record, digest: 'ef'.repeat(32) };
      await expect(stores.writer.put(second)).rejects.toMatchObject({ code: 'conflict' });
      expect(await stores.reader.get(record.id)).toEqual(record);
    });

    it('shows a change to who reads next', async () => {
      const record = someKey();
      await stores.writer.put(record);
      expect(await stores.reader.get(record.id)).toEqual(record);
      const changed = await stores.writer.update(record.id, (each) => ({ ...each, revokedMs: 5 }));
      expect(changed).toEqual({ ...record, revokedMs: 5 });
      expect(await stores.reader.get(record.id)).toEqual(changed);
    });

    it('loses no change of several at once', async () => {
      const record = someKey({ limits: { tokensPerDay: 1 } });
      await stores.writer.put(record);
      const more = (each: KeyRecord): KeyRecord => ({
        ...each,
        limits: { tokensPerDay: (each.limits.tokensPerDay ?? 0) + 1 },
      });
      await Promise.all(
        [stores.writer, stores.reader, stores.writer, stores.reader].map((store) => store.update(record.id, more)),
      );
      expect((await stores.reader.get(record.id))?.limits).toEqual({ tokensPerDay: 5 });
    });

    it('loses no record of several that are put at once', async () => {
      const records = Array.from({ length: 8 }, () => someKey());
      await Promise.all(records.map((record, at) => (at % 2 === 0 ? stores.writer : stores.reader).put(record)));
      const ids = (await stores.reader.list()).map(({ id }) => id);
      expect(ids).toEqual(expect.arrayContaining(records.map(({ id }) => id)));
    });

    it('lists every record, oldest first', async () => {
      const [late, early] = [someKey({ createdMs: 2000 }), someKey({ createdMs: 1000 })];
      await stores.writer.put(late);
      await stores.writer.put(early);
      const listed = (await stores.reader.list()).filter(({ id }) => id === late.id || id === early.id);
      expect(listed).toEqual([early, late]);
    });

    it('forgets what was deleted', async () => {
      const record = someKey();
      await stores.writer.put(record);
      expect(await stores.reader.get(record.id)).toEqual(record);
      expect(await stores.writer.delete(record.id)).toBe(true);
      expect(await stores.reader.get(record.id)).toBeUndefined();
      expect(await stores.writer.delete(record.id)).toBe(false);
    });

    it('does nothing for who has given up', async () => {
      const record = someKey();
      const signal = AbortSignal.abort(new Error('gone'));
      await expect(stores.writer.put(record, signal)).rejects.toThrow('gone');
      await expect(stores.reader.get(record.id, signal)).rejects.toThrow('gone');
      await expect(stores.reader.list(signal)).rejects.toThrow('gone');
      expect(await stores.reader.get(record.id)).toBeUndefined();
    });
  });
}
