import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { Worker } from '../../../../shared/worker/worker.ts';
import { CallerSink, ScriptedEngine, workerBed } from '../worker-bed.ts';

const ID = '1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';

async function setUp() {
  const engine = new ScriptedEngine();
  const bed = workerBed(engine);
  const worker = await bed.start();
  const cancel = async (body: unknown): Promise<CallerSink> => {
    const sink = new CallerSink();
    const transport = { memory: `${worker.instanceId}/ns/backend/cancel` };
    bed.options.requestPlane.call(transport, { id: seededRandom(2).uuid(), headers: {}, body }, sink);
    await bed.clock.advance(0);
    return sink;
  };
  return { ...bed, engine, worker, cancel };
}

async function begin({ call, clock, worker }: ReturnType<typeof workerBed> & { worker: Worker }, id: string) {
  const { sink } = call(worker, [1, 2, 3], { id });
  await clock.advance(0);
  return sink;
}

describe('the cancel endpoint of a worker', () => {
  it.each([`chatcmpl-${ID}`, ID.toUpperCase(), `resp_${ID.replaceAll('-', '')}`])(
    'ends every prompt of the request that a client knows as %s, and no other',
    async (id) => {
      const bed = await setUp();
      const asked = [await begin(bed, `${ID}-0`), await begin(bed, `${ID}-1`)];
      const other = await begin(bed, '9b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b');
      const answer = await bed.cancel({ id });
      expect(answer.outputs).toMatchObject([{ body: { cancelled: 2 } }]);
      for (const { error } of asked) {
        expect(error).toMatchObject({ worker: 'CancelledByClient', code: 'client_closed_request' });
      }
      expect(other.error).toBeUndefined();
      expect(bed.engine.requests.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
      expect(bed.worker.activeRequests).toBe(1);
      expect(await bed.metrics.render()).toMatch(/cancellation\w*\{[^}]*\} 2/);
    },
  );

  it('does not know requests by what their clients call them', async () => {
    const bed = await setUp();
    const sink = await begin(bed, ID);
    expect((await bed.cancel({ id: 'mine' })).outputs).toMatchObject([{ body: { cancelled: 0 } }]);
    expect(sink.error).toBeUndefined();
  });

  it('says that it has no such request, and what is no id', async () => {
    const bed = await setUp();
    expect((await bed.cancel({ id: ID })).outputs).toMatchObject([{ body: { cancelled: 0 } }]);
    for (const body of [{ id: '' }, { id: 'x'.repeat(1025) }, { id: 1 }, {}, null]) {
      expect((await bed.cancel(body)).error).toMatchObject({ worker: 'InvalidArgument', param: 'id' });
    }
  });

  it('still answers while the lease is lost: streams go on then', async () => {
    const bed = await setUp();
    const sink = await begin(bed, ID);
    bed.discovery.loseLease();
    expect((await bed.cancel({ id: ID })).outputs).toMatchObject([{ body: { cancelled: 1 } }]);
    expect(sink.error).toBeDefined();
  });
});
