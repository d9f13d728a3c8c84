import { MemoryKeyStore } from '../../support/memory-key-store.ts';
import { describeKeyStore } from './key-store.contract.ts';

describeKeyStore('memory', async () => {
  const store = new MemoryKeyStore();
  return { writer: store, reader: store, close: async () => store.close() };
});
