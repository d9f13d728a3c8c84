import { describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import type { EndpointRecord } from '../../../../shared/discovery/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import { type ControlCaller, RequestCanceller } from '../../../../shared/pipeline/index.ts';
import { createMemoryRequestPlane, type PlaneHandler } from '../../../../shared/planes/request/index.ts';

const ID = '1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';

/** The id of the `at`th of many requests. */
function idOf(at: number): string {
  return `${ID.slice(0, -6)}${at.toString(16).padStart(6, '0')}`;
}

const has =
  (cancelled: number, asked: unknown[] = []): PlaneHandler =>
  (call) => {
    asked.push(call.body);
    call.output({ body: { cancelled } });
    call.end();
  };

/** Workers that answer a cancel so. */
async function bed(handlers: readonly PlaneHandler[]): Promise<ControlCaller & { readonly clock: VirtualClock }> {
  const clock = new VirtualClock();
  const plane = createMemoryRequestPlane({ clock });
  const records: EndpointRecord[] = [];
  for (const [at, handler] of handlers.entries()) {
    const id = String(at);
    const server = await plane.serve({ instanceId: id });
    const address = { namespace: 'ours', component: 'backend', instance_id: id };
    const serve = (endpoint: string, serving: PlaneHandler): void => {
      records.push({ type: 'Endpoint', ...address, endpoint, transport: server.handle(`${id}/${endpoint}`, serving) });
    };
    serve('cancel', handler);
    serve('generate', () => {});
  }
  return { clock, plane, random: seededRandom(1), instances: () => records };
}

describe('cancelling a request of another edge', () => {
  it('asks the cancel endpoint of every worker', async () => {
    const asked: unknown[] = [];
    const parts = await bed([has(0, asked), has(2, asked)]);
    const cancelling = new RequestCanceller(parts).cancel(ID);
    await parts.clock.advance(10);
    expect(await cancelling).toEqual({ isCancelled: true, silent: 0 });
    expect(asked).toEqual([{ id: ID }, { id: ID }]);
  });

  it('tells that nobody had it', async () => {
    const parts = await bed([has(0)]);
    const cancelling = new RequestCanceller(parts).cancel(ID);
    await parts.clock.advance(10);
    expect(await cancelling).toEqual({ isCancelled: false, silent: 0 });
  });

  it('counts workers that fail, answer nonsense or stay silent for two seconds', async () => {
    const parts = await bed([
      (call) => call.fail(workerError('Internal')),
      (call) => call.end(),
      (call) => call.accept(),
      has(1),
    ]);
    const cancelling = new RequestCanceller(parts).cancel(ID);
    await parts.clock.advance(2000);
    expect(await cancelling).toEqual({ isCancelled: true, silent: 3 });
  });

  it('asks 64 at once, and ends in time however many do not answer', async () => {
    let asked = 0;
    const silent: PlaneHandler = (call) => {
      asked++;
      call.accept();
    };
    const parts = await bed(Array.from({ length: 100 }, () => silent));
    const cancelling = new RequestCanceller(parts).cancel(ID);
    await parts.clock.advance(1000);
    expect(asked).toBe(64);
    await parts.clock.advance(1000);
    expect(await cancelling).toEqual({ isCancelled: false, silent: 100 });
    expect(asked).toBe(64);
  });
});

describe.each([10, 1000])('what cancels of strangers cost a fleet of %d workers', (workers) => {
  async function fleet() {
    const asked: unknown[] = [];
    const parts = await bed(Array.from({ length: workers }, () => has(0, asked)));
    return { asked, canceller: new RequestCanceller(parts), ...parts };
  }

  it.each(['junk', 'x'.repeat(5000), '', `${ID}${ID}`, `a-${ID}-b`])(
    'no call for an id that is none: %s',
    async (id) => {
      const { asked, canceller, clock } = await fleet();
      expect(await canceller.cancel(id)).toEqual({ isCancelled: false, silent: 0 });
      await clock.advance(10);
      expect(asked).toEqual([]);
    },
  );

  it('one call a worker for any number of cancels of one request at a time', async () => {
    const { asked, canceller, clock } = await fleet();
    const names = [ID, `chatcmpl-${ID}`, `resp_${ID.replaceAll('-', '')}`, `${ID}-3`];
    const cancelling = Promise.all(names.map((name) => canceller.cancel(name)));
    await clock.advance(10);
    expect(await cancelling).toHaveLength(names.length);
    expect(asked).toHaveLength(workers);
    const again = canceller.cancel(ID);
    await clock.advance(10);
    await again;
    expect(asked).toHaveLength(2 * workers);
  });

  it('a bounded number of calls for any number of made-up ids, and goes on after a pause', async () => {
    const { asked, canceller, clock } = await fleet();
    let refused = 0;
    for (let at = 0; at < 2000; at++) {
      const cancelling = canceller.cancel(idOf(at)).catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'server_overloaded', retryAfterMs: 1000 });
        refused++;
      });
      await clock.advance(0);
      await cancelling;
    }
    expect(asked).toHaveLength(5000);
    expect(refused).toBe(2000 - 5000 / workers);
    await clock.advance(1000);
    const later = canceller.cancel(idOf(5000));
    await clock.advance(0);
    expect(await later).toEqual({ isCancelled: false, silent: 0 });
  });
});

describe('cancels while workers are silent', () => {
  it('are refused beyond 64 at a time', async () => {
    const parts = await bed([(call) => call.accept()]);
    const canceller = new RequestCanceller(parts);
    const waiting = Array.from({ length: 64 }, (_, at) => canceller.cancel(idOf(at)));
    await expect(canceller.cancel(idOf(64))).rejects.toMatchObject({ code: 'server_overloaded' });
    await parts.clock.advance(2000);
    expect(await Promise.all(waiting)).toHaveLength(64);
  });
});
