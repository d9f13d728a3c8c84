import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { EndpointWorkers } from '../../../shared/standalone/standalone-router.ts';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

describe('the workers of a standalone router', () => {
  it('have the limits of their cards, on which costs depend', async () => {
    const clock = new VirtualClock();
    const discovery = new MemoryDiscovery({ hub: new MemoryHub(clock), clock, random: seededRandom(1) });
    const record = modelAt('ns/c/e/a1');
    const limits = { total_kv_blocks: 1024, max_num_batched_tokens: 8192, max_num_seqs: 64 };
    await discovery.put(endpointAt('ns/c/e/a1'));
    await discovery.put({ ...record, card: { ...record.card, runtime_config: limits } });
    let workers: readonly unknown[] = [];
    const followed = new EndpointWorkers({ namespace: 'ns', component: 'c', endpoint: 'e' }, (present) => {
      workers = present;
    });
    await followed.start(discovery, new AbortController().signal);
    await clock.advance(0);
    expect(workers).toMatchObject([{ id: 'a1', totalKvBlocks: 1024, maxNumBatchedTokens: 8192, maxNumSeqs: 64 }]);
    followed.close();
    await discovery.close();
  });
});
