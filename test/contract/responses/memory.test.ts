import { describe, expect, it } from 'vitest';
import { MemoryResponseStore } from '../../../shared/responses/index.ts';
import { describeResponseStore, recordClock, someResponse, TTL_MS } from './response-store.contract.ts';

describeResponseStore('memory', async () => {
  const { clock, age } = recordClock();
  const store = new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax: 64 * 1024 * 1024 });
  return { store, age, close: async () => store.close() };
});

describe('memory response store within its bound', () => {
  const sized = (bytes: number) => someResponse({ response: { text: 'x'.repeat(bytes) }, input: [] });

  it('lets the oldest writes leave first, and says which', async () => {
    const evicted: string[] = [];
    const { clock } = recordClock();
    const store = new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax: 3000, onEvict: (id) => evicted.push(id) });
    const [first, second, third] = [sized(900), sized(900), sized(900)];
    for (const record of [first, second, third]) await store.put(record!);
    await store.delete(first!.id, '');
    await store.put(first!); // written again: now the newest
    const last = sized(900);
    await store.put(last);
    expect(evicted).toEqual([second!.id]);
    expect(await store.get(first!.id, '')).toEqual(first);
    expect(store.sizeBytes).toBeLessThanOrEqual(3000);
  });

  it('refuses what could never fit, and keeps the rest', async () => {
    const { clock } = recordClock();
    const store = new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax: 1000 });
    const kept = sized(100);
    await store.put(kept);
    await expect(store.put(sized(1000))).rejects.toMatchObject({ code: 'too_large' });
    expect(await store.get(kept.id, '')).toEqual(kept);
  });

  it('refuses one record that would take most of it', async () => {
    const { clock } = recordClock();
    const store = new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax: 10_000, recordBytesMax: 1000 });
    await store.put(sized(100));
    await expect(store.put(sized(1000))).rejects.toMatchObject({ code: 'too_large' });
  });

  it('holds no byte for what has expired or was deleted', async () => {
    const { clock, age } = recordClock();
    const store = new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax: 10_000 });
    const record = sized(100);
    await store.put(record);
    await store.put(sized(100));
    await store.delete(record.id, '');
    await age(TTL_MS);
    await store.get(record.id, '');
    expect(store.sizeBytes).toBe(0);
  });
});
