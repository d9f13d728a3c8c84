import { describe, expect, it } from 'vitest';
import type { NamedRequest } from '../../../../shared/access/index.ts';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EndpointRecord } from '../../../../shared/discovery/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { ControlCaller } from '../../../../shared/pipeline/control/worker-calls.ts';
import { RequestCanceller } from '../../../../shared/pipeline/index.ts';
import type { PlaneHandler } from '../../../../shared/planes/index.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const KEY = '1b4e28ba2fa14d3ba3f5ef19b5a7633b';

/** The `at`th of many requests, at several workers. */
function spread(at = 0): NamedRequest {
  return { key: KEY.slice(0, -6) + at.toString(16).padStart(6, '0'), workerId: undefined };
}

const has =
  (cancelled: number, asked: unknown[] = [], left = false): PlaneHandler =>
  (call) => {
    asked.push(call.body);
    call.output({ body: { cancelled, left } });
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

describe('cancelling a request that began at one worker', () => {
  const named: NamedRequest = { key: KEY, workerId: '1' };

  /** Three workers that say so much of it; tells who was asked. */
  async function cancelled(...handlers: readonly PlaneHandler[]) {
    const asked: number[] = [];
    const noting = handlers.map(
      (handler, at): PlaneHandler =>
        (call) => {
          asked.push(at);
          return handler(call);
        },
    );
    const parts = await bed(noting);
    const cancelling = new RequestCanceller(parts).cancel(named);
    await parts.clock.advance(2000);
    return { asked, ...(await cancelling) };
  }

  it('asks that worker alone', async () => {
    expect(await cancelled(has(0), has(1), has(0))).toEqual({ asked: [1], isCancelled: true, silent: 0 });
  });

  it('asks no other worker if the request is over there', async () => {
    expect(await cancelled(has(0), has(0), has(0))).toEqual({ asked: [1], isCancelled: false, silent: 0 });
  });

  it('asks the others where the request has left that worker', async () => {
    expect(await cancelled(has(0), has(0, [], true), has(1))).toEqual({
      asked: [1, 0, 2],
      isCancelled: true,
      silent: 0,
    });
  });

  it('asks the others within the same two seconds where that worker is silent', async () => {
    const silent: PlaneHandler = (call) => call.accept();
    expect(await cancelled(has(0), silent, has(1))).toEqual({ asked: [1, 0, 2], isCancelled: true, silent: 1 });
    expect(await cancelled(has(0), silent, has(0))).toMatchObject({ isCancelled: false, silent: 1 });
  });

  it('asks the others where that worker is gone', async () => {
    expect(await cancelled(has(1))).toEqual({ asked: [0], isCancelled: true, silent: 0 });
  });
});

describe('cancelling a request that names no worker', () => {
  it('asks the cancel endpoint of every worker', async () => {
    const asked: unknown[] = [];
    const parts = await bed([has(0, asked), has(2, asked)]);
    const cancelling = new RequestCanceller(parts).cancel(spread());
    await parts.clock.advance(10);
    expect(await cancelling).toEqual({ isCancelled: true, silent: 0 });
    const { key: id } = spread();
    expect(asked).toEqual([{ id }, { id }]);
  });

  it('says that no worker had it', async () => {
    const parts = await bed([has(0)]);
    const cancelling = new RequestCanceller(parts).cancel(spread());
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
    const cancelling = new RequestCanceller(parts).cancel(spread());
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
    const cancelling = new RequestCanceller(parts).cancel(spread());
    await parts.clock.advance(1000);
    expect(asked).toBe(64);
    await parts.clock.advance(1000);
    expect(await cancelling).toEqual({ isCancelled: false, silent: 100 });
    expect(asked).toBe(64);
  });
});

describe.each([10, 1000])('what cancels cost a fleet of %d workers', (workers) => {
  async function fleet() {
    const asked: unknown[] = [];
    const parts = await bed(Array.from({ length: workers }, () => has(0, asked)));
    return { asked, canceller: new RequestCanceller(parts), ...parts };
  }

  it('one call a worker for any number of cancels of one request at a time', async () => {
    const { asked, canceller, clock } = await fleet();
    const cancelling = Promise.all([1, 2, 3].map(() => canceller.cancel(spread())));
    await clock.advance(10);
    expect(await cancelling).toHaveLength(3);
    expect(asked).toHaveLength(workers);
    const again = canceller.cancel(spread());
    await clock.advance(10);
    await again;
    expect(asked).toHaveLength(2 * workers);
  });

  it('a bounded number of calls for any number of requests, and goes on after a pause', async () => {
    const { asked, canceller, clock } = await fleet();
    let refused = 0;
    for (let at = 0; at < 2000; at++) {
      const cancelling = canceller.cancel(spread(at)).catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'server_overloaded', retryAfterMs: 1000 });
        refused++;
      });
      await clock.advance(0);
      await cancelling;
    }
    expect(asked).toHaveLength(5000);
    expect(refused).toBe(2000 - 5000 / workers);
    await clock.advance(1000);
    const later = canceller.cancel(spread(5000));
    await clock.advance(0);
    expect(await later).toEqual({ isCancelled: false, silent: 0 });
  });
});

describe('cancels while workers are silent', () => {
  it('are refused beyond 64 at a time', async () => {
    const parts = await bed([(call) => call.accept()]);
    const canceller = new RequestCanceller(parts);
    const waiting = Array.from({ length: 64 }, (_, at) => canceller.cancel(spread(at)));
    await expect(canceller.cancel(spread(64))).rejects.toMatchObject({ code: 'server_overloaded' });
    await parts.clock.advance(2000);
    expect(await Promise.all(waiting)).toHaveLength(64);
  });
});
