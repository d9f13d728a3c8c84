import { describe, expect, it } from 'vitest';
import { KeyCache } from '../../../../shared/access/keys/key-cache.ts';
import type { KeyRecord } from '../../../../shared/access/keys/key-record.ts';
import { newKeyId } from '../../../../shared/access/keys/key-text.ts';
import { someKey } from '../../../contract/keys/key-store.contract.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const MINUTE_MS = 60_000;

/** A cache over a store that a test answers for, and what it was asked. */
function bed(records: readonly KeyRecord[] = []) {
  const clock = new VirtualClock();
  const store = new Map(records.map((record) => [record.id, record]));
  const asked: string[] = [];
  const state = { isAway: false };
  const cache = new KeyCache({
    clock,
    freshMs: MINUTE_MS,
    store: {
      get: async (id) => {
        asked.push(id);
        await clock.sleep(10);
        if (state.isAway) throw new Error('no store');
        return store.get(id);
      },
    },
  });
  /** Returns the outcome of a lookup, with time for a read. */
  const find = async (id: string): Promise<KeyRecord | string | undefined> => {
    const looking = Promise.resolve()
      .then(() => cache.find(id))
      .then((ready) => ready?.record)
      .catch((error: { code: string }) => error.code);
    await clock.advance(10);
    return looking;
  };
  return { clock, store, asked, state, cache, find };
}

describe('the cache of keys', () => {
  it('reads a key once in its time, for however many ask', async () => {
    const key = someKey();
    const { cache, find, asked, clock } = bed([key]);
    const many = Promise.all(Array.from({ length: 100 }, () => cache.find(key.id)));
    await clock.advance(10);
    expect(new Set((await many).map((ready) => ready?.record))).toEqual(new Set([key]));
    expect(asked).toHaveLength(1);
    await clock.advance(MINUTE_MS - 100);
    expect(await find(key.id)).toEqual(key);
    expect(asked).toHaveLength(1);
    await clock.advance(100);
    expect(await find(key.id)).toEqual(key);
    expect(asked).toHaveLength(2);
  });

  it('answers at once where it knows', async () => {
    const key = someKey();
    const { cache, find } = bed([key]);
    await find(key.id);
    expect(cache.find(key.id)).toMatchObject({ record: key });
  });

  it('has at hand what is fresh, and nothing else', async () => {
    const key = someKey();
    const { cache, find, clock } = bed([key]);
    expect(cache.fresh(key.id)).toBeUndefined();
    await find(key.id);
    expect(cache.fresh(key.id)).toMatchObject({ record: key });
    await clock.advance(MINUTE_MS);
    expect(cache.fresh(key.id)).toBeUndefined();
  });

  it('shows a change within its time', async () => {
    const key = someKey();
    const { store, find, clock } = bed([key]);
    await find(key.id);
    store.set(key.id, { ...key, revokedMs: 1 });
    expect(await find(key.id)).toEqual(key);
    await clock.advance(MINUTE_MS);
    expect(await find(key.id)).toEqual({ ...key, revokedMs: 1 });
    store.delete(key.id);
    await clock.advance(MINUTE_MS);
    expect(await find(key.id)).toBeUndefined();
  });

  it('reads again after a freeze in which only the wall clock went on', async () => {
    const key = someKey();
    let frozenMs = 0;
    const virtual = new VirtualClock();
    const clock = Object.assign(Object.create(virtual) as VirtualClock, {
      nowMs: () => virtual.nowMs(),
      wallMs: () => virtual.wallMs() + frozenMs,
    });
    let reads = 0;
    const get = async () => {
      reads++;
      return key;
    };
    const cache = new KeyCache({ clock, freshMs: MINUTE_MS, store: { get } });
    await cache.find(key.id);
    await cache.find(key.id);
    expect(reads).toBe(1);
    frozenMs = MINUTE_MS;
    await cache.find(key.id);
    expect(reads).toBe(2);
  });

  it('remembers for five seconds that no key has an id', async () => {
    const { find, asked, clock, store } = bed();
    const key = someKey();
    expect(await find(key.id)).toBeUndefined();
    store.set(key.id, key);
    await clock.advance(4900);
    expect(await find(key.id)).toBeUndefined();
    expect(asked).toHaveLength(1);
    await clock.advance(100);
    expect(await find(key.id)).toEqual(key);
  });

  it('bounds memory and reads under a hundred thousand unknown ids, and knows its keys meanwhile', async () => {
    const key = someKey();
    const { cache, find, asked, clock } = bed([key]);
    await find(key.id);
    let refused = 0;
    let sizeMax = 0;
    for (let second = 0; second < 10; second++) {
      for (let at = 0; at < 10_000; at++) {
        try {
          void cache.find(newKeyId());
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: 'service_unavailable', retryAfterMs: 1000 });
          refused++;
        }
        sizeMax = Math.max(sizeMax, cache.size);
      }
      await clock.advance(1000);
      expect(cache.find(key.id)).toMatchObject({ record: key });
    }
    expect(asked.length).toBe(200 + 9 * 50);
    expect(refused).toBe(100_000 - 199 - 9 * 50);
    expect(sizeMax).toBeLessThan(1000);
  });

  it('keeps no more than 10,000 keys and 4096 unknown ids, however slowly they come', async () => {
    const keys = Array.from({ length: 11_000 }, () => someKey());
    const { cache, clock } = bed(keys);
    for (const { id } of keys) {
      void cache.find(id);
      await clock.advance(20);
    }
    expect(cache.size).toBeLessThanOrEqual(10_001);
    for (let at = 0; at < 300; at++) {
      void cache.find(newKeyId());
      await clock.advance(20);
    }
    expect(cache.size).toBeLessThanOrEqual(10_000 + 5000 / 20 + 1);
  });
});

describe('keys that were deleted', () => {
  it('are remembered as unknown within the same bound', async () => {
    const keys = Array.from({ length: 5000 }, () => someKey());
    const { cache, clock, store } = bed(keys);
    for (const { id } of keys) {
      void cache.find(id);
      await clock.advance(20);
    }
    store.clear();
    await clock.advance(MINUTE_MS);
    for (const { id } of keys) void cache.find(id);
    await clock.advance(10);
    expect(cache.size).toBe(4096);
  });
});

describe('the cache of keys while the store is away', () => {
  it('goes on with the keys that it knows for ten minutes, without a wait, and refuses them then', async () => {
    const key = someKey();
    const { cache, find, state, clock, asked } = bed([key]);
    await find(key.id);
    state.isAway = true;
    await clock.advance(MINUTE_MS);
    expect(await find(key.id)).toEqual(key); // the first waits for the read
    expect(cache.find(key.id)).toMatchObject({ record: key });
    await clock.advance(8 * MINUTE_MS);
    expect(cache.find(key.id)).toMatchObject({ record: key });
    await clock.advance(1100);
    const reads = asked.length;
    for (let at = 0; at < 100; at++) expect(cache.find(key.id)).toMatchObject({ record: key });
    expect(asked.length).toBe(reads + 1); // one try a second, behind the answer
    await clock.advance(2 * MINUTE_MS);
    expect(await find(key.id)).toBe('service_unavailable');
    expect(() => cache.find(key.id)).toThrow('cannot be looked up');
  });

  it('refuses keys that it does not know, with a try a second', async () => {
    const key = someKey();
    const { find, state, clock, asked } = bed([key]);
    state.isAway = true;
    expect(await find(key.id)).toBe('service_unavailable');
    expect(await find(key.id)).toBe('service_unavailable');
    expect(await find(newKeyId())).toBe('service_unavailable');
    expect(asked).toHaveLength(1);
    state.isAway = false;
    await clock.advance(1000);
    expect(await find(key.id)).toEqual(key);
  });

  it('heeds a revocation as soon as the store is back', async () => {
    const key = someKey();
    const { find, state, clock, store, cache } = bed([key]);
    await find(key.id);
    state.isAway = true;
    await clock.advance(MINUTE_MS);
    await find(key.id);
    store.set(key.id, { ...key, revokedMs: 1 });
    state.isAway = false;
    await clock.advance(1000);
    expect(await find(key.id)).toEqual(key); // starts the read that finds it
    expect(cache.find(key.id)).toMatchObject({ record: { revokedMs: 1 } });
  });
});

describe('a key that does not match the record', () => {
  it('is looked up again where the record is five seconds old', async () => {
    const key = someKey();
    const { cache, find, asked, clock, store } = bed([key]);
    await find(key.id);
    expect(cache.findAgain(key.id)).toMatchObject({ record: key });
    store.set(key.id, { ...key, digest: 'ef'.repeat(32) });
    await clock.advance(5000);
    const again = cache.findAgain(key.id);
    await clock.advance(10);
    expect((await again)?.record.digest).toBe('ef'.repeat(32));
    for (let at = 0; at < 100; at++) expect(cache.findAgain(key.id)).not.toBeInstanceOf(Promise);
    expect(asked).toHaveLength(2);
  });
});
