import { describe, expect, it } from 'vitest';
import { createMemorySnapshotStore } from '../../support/router/memory-snapshot-store.ts';
import { describeSnapshotStore } from './snapshot-store.contract.ts';

const never = new AbortController().signal;

describeSnapshotStore('memory', async () => {
  const store = createMemorySnapshotStore();
  return { store, close: () => store.close() };
});

describe('the memory store', () => {
  it('says that it is full', async () => {
    const store = createMemorySnapshotStore(100);
    await store.put('a', [new Uint8Array(60)], never);
    await expect(store.put('b', [new Uint8Array(60)], never)).rejects.toThrow(/full/);
    expect(await store.list(never)).toEqual(['a']);
  });
});
