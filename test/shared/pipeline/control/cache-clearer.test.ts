import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EndpointRecord } from '../../../../shared/discovery/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import { CacheClearer } from '../../../../shared/pipeline/index.ts';
import type { PlaneHandler } from '../../../../shared/planes/index.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { model, worker } from '../fixtures.ts';

/** Workers `a`, `b` and `c` of one model, of which some serve the endpoint. */
async function bed(handlers: Readonly<Record<string, PlaneHandler>>) {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const records: EndpointRecord[] = [];
  const plane = createMemoryRequestPlane({ clock });
  for (const [id, handler] of Object.entries(handlers)) {
    const server = await plane.serve({ instanceId: id });
    const transport = server.handle(`${id}/clear`, handler);
    const address = { namespace: 'dynamo', component: 'backend', endpoint: 'clear_kv_blocks', instance_id: id };
    records.push({ type: 'Endpoint', ...address, transport });
  }
  const served = model({ workers: ['a', 'b', 'c'].map(worker) });
  const clearer = new CacheClearer({ models: () => [served], instances: () => records, plane, clock, random });
  return { clock, clearer };
}

describe('clearing caches', () => {
  it('asks every worker and tells what became of each', async () => {
    const { clock, clearer } = await bed({
      a: (call) => call.end(),
      b: (call) => call.fail(workerError('Internal', 'blocks are in use')),
    });
    const clearing = clearer.clear();
    await clock.advance(10);
    const about = { model: 'letters', endpoint: 'dynamo/backend/clear_kv_blocks' };
    expect(await clearing).toEqual([
      { ...about, workerId: 'a', failure: undefined },
      { ...about, workerId: 'b', failure: 'blocks are in use' },
      { ...about, workerId: 'c', failure: 'the worker cannot clear its cache' },
    ]);
  });

  it('waits no longer than ten seconds for a worker', async () => {
    const { clock, clearer } = await bed({ a: (call) => call.accept() });
    const clearing = clearer.clear();
    await clock.advance(10_000);
    expect((await clearing)[0]?.failure).toBeDefined();
  });
});
