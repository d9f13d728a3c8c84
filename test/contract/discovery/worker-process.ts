import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import { createDiscovery, type SharedStoreOptions } from '../../support/create-discovery.ts';

// A process that registers one record and reports what becomes of its lease. It stays until the test kills it or tells
// it to leave.
const { options, record } = JSON.parse(process.argv[2] ?? '') as {
  readonly options: SharedStoreOptions;
  readonly record: DiscoveryRecord;
};
const discovery = await createDiscovery({ ...options, onProblem: (problem) => console.error(problem.message) });
discovery.onLeaseLost(() => console.log('lease lost'));
discovery.onLeaseRegained(() => console.log('lease regained'));
await discovery.put(record);
console.log('registered');
process.stdin.once('data', async () => {
  await discovery.close();
  process.exit(0);
});
