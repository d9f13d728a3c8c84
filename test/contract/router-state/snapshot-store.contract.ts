import { afterEach, describe, expect, it } from 'vitest';
import type { SnapshotStore } from '../../../shared/router-state/index.ts';

/** One empty store for one test. */
export interface SnapshotStoreUnderTest {
  readonly store: SnapshotStore;
  /** Another handle on the same objects, as another process has it. Absent for a store inside one process. */
  reopen?(): Promise<SnapshotStore>;
  /** Changes the stored bytes of an object behind the store's back. Absent if that is impossible. */
  damage?(name: string): Promise<void>;
  close(): Promise<void>;
}

const never = new AbortController().signal;

/** Tests what every `SnapshotStore` does. */
export function describeSnapshotStore(name: string, open: () => Promise<SnapshotStoreUnderTest>): void {
  describe(`${name} snapshot store`, () => {
    let under: SnapshotStoreUnderTest;
    const start = async (): Promise<SnapshotStore> => {
      under = await open();
      return under.store;
    };
    afterEach(() => under.close());

    it('gives an object back as it was put, whatever its slices', async () => {
      const store = await start();
      const bytes = Uint8Array.from({ length: 700_001 }, (_, at) => (at * 31) % 251);
      async function* slices(): AsyncGenerator<Uint8Array> {
        for (let at = 0; at < bytes.length; at += 65_521) yield bytes.subarray(at, at + 65_521);
      }
      await store.put('a.1-2', slices(), never);
      await store.put('empty', [], never);
      const reader = (await under.reopen?.()) ?? store;
      expect(Buffer.from((await reader.get('a.1-2', never)) ?? []).equals(bytes)).toBe(true);
      expect(await reader.get('empty', never)).toHaveLength(0);
      if (reader !== store) await reader.close();
    });

    it('does not mind that the writer uses its buffer again', async () => {
      const store = await start();
      const buffer = new Uint8Array(4);
      function* slices(): Generator<Uint8Array> {
        for (let at = 0; at < 3; at++) yield buffer.fill(at);
      }
      await store.put('a', slices(), never);
      expect([...((await store.get('a', never)) ?? [])]).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    });

    it('knows nothing of an object that was never put', async () => {
      const store = await start();
      expect(await store.get('none', never)).toBeUndefined();
      await store.remove('none', never);
    });

    it('lists the names in order, and not those that were removed', async () => {
      const store = await start();
      for (const object of ['b', 'a.10', 'a.9', 'c-1']) await store.put(object, [Uint8Array.of(1)], never);
      await store.remove('b', never);
      await store.remove('b', never);
      expect(await store.list(never)).toEqual(['a.10', 'a.9', 'c-1']);
      expect(await store.get('b', never)).toBeUndefined();
    });

    it('never overwrites', async () => {
      const store = await start();
      await store.put('a', [Uint8Array.of(1)], never);
      await expect(store.put('a', [Uint8Array.of(2)], never)).rejects.toThrow(/"a".*exists/);
      expect([...((await store.get('a', never)) ?? [])]).toEqual([1]);
    });

    it('gives one of two writers the name', async () => {
      const store = await start();
      const outcomes = await Promise.allSettled([1, 2].map((byte) => store.put('a', [Uint8Array.of(byte)], never)));
      const winner = outcomes.findIndex(({ status }) => status === 'fulfilled');
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect([...((await store.get('a', never)) ?? [])]).toEqual([winner + 1]);
    });

    it('shows nothing of an object whose writer fails half way', async () => {
      const store = await start();
      async function* failing(): AsyncGenerator<Uint8Array> {
        yield new Uint8Array(200_000);
        throw new Error('the index is gone');
      }
      await expect(store.put('a', failing(), never)).rejects.toThrow('the index is gone');
      expect(await store.get('a', never)).toBeUndefined();
      expect(await store.list(never)).toEqual([]);
      await store.put('a', [Uint8Array.of(1)], never);
      expect(await store.get('a', never)).toHaveLength(1);
    });

    it('shows nothing of an object whose writing is aborted, and rejects with the reason', async () => {
      const store = await start();
      const abort = new AbortController();
      async function* endless(): AsyncGenerator<Uint8Array> {
        yield new Uint8Array(1000);
        abort.abort(new Error('enough'));
        yield new Uint8Array(1000);
      }
      await expect(store.put('a', endless(), abort.signal)).rejects.toThrow('enough');
      expect(await store.get('a', never)).toBeUndefined();
      await expect(store.get('a', abort.signal)).rejects.toThrow('enough');
      await expect(store.list(abort.signal)).rejects.toThrow('enough');
    });

    it('ends what it was to write when it gives up half way', async () => {
      const store = await start();
      const abort = new AbortController();
      let isEnded = false;
      function* slices(): Generator<Uint8Array> {
        try {
          for (;;) {
            yield new Uint8Array(1000);
            abort.abort(new Error('enough'));
          }
        } finally {
          isEnded = true;
        }
      }
      await expect(store.put('a', slices(), abort.signal)).rejects.toThrow('enough');
      expect(isEnded).toBe(true);
    });

    it('fails rather than give back what was not put', async () => {
      const store = await start();
      await store.put('a', [new Uint8Array(100_000).fill(7)], never);
      await under.damage?.('a');
      if (under.damage !== undefined) await expect(store.get('a', never)).rejects.toThrow();
      else expect(await store.get('a', never)).toHaveLength(100_000);
    });
  });
}
