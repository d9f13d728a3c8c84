import { MemoryKeyStore } from '../../../shared/access/keys/index.ts';
import { describeKeyStore } from './key-store.contract.ts';

describeKeyStore('memory', async () => {
  const store = new MemoryKeyStore();
  return { writer: store, reader: store, close: async () => store.close() };
});
