import { describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import { RequestCanceller } from '../../../../shared/pipeline/index.ts';
import { createMemoryRequestPlane, type PlaneHandler } from '../../../../shared/planes/request/index.ts';

const has =
  (cancelled: number, asked: unknown[] = []): PlaneHandler =>
  (call) => {
    asked.push(call.body);
    call.output({ body: { cancelled } });
    call.end();
  };

/** Workers that answer a cancel so, by `namespace/id`. */
async function bed(handlers: Readonly<Record<string, PlaneHandler>>) {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const discovery = new MemoryDiscovery({ hub: new MemoryHub(clock), clock, random });
  const plane = createMemoryRequestPlane({ clock });
  for (const [name, handler] of Object.entries(handlers)) {
    const [namespace = '', id = ''] = name.split('/');
    const server = await plane.serve({ instanceId: id });
    const address = { namespace, component: 'backend', endpoint: 'cancel', instance_id: id };
    await discovery.put({ type: 'Endpoint', ...address, transport: server.handle(`${id}/cancel`, handler) });
    const other = { ...address, endpoint: 'generate', transport: server.handle(`${id}/generate`, () => {}) };
    await discovery.put({ type: 'Endpoint', ...other });
  }
  const isServedFrom = (namespace: string): boolean => namespace === 'ours';
  return { clock, discovery, plane, random, isServedFrom };
}

describe('cancelling a request of another edge', () => {
  it('asks every worker that serves this edge, and nobody else', async () => {
    const asked: unknown[] = [];
    const parts = await bed({ 'ours/a': has(0, asked), 'ours/b': has(2, asked), 'theirs/c': has(1, asked) });
    const cancelling = new RequestCanceller(parts).cancel('x');
    await parts.clock.advance(10);
    expect(await cancelling).toEqual({ isCancelled: true, silent: 0 });
    expect(asked).toEqual([{ id: 'x' }, { id: 'x' }]);
  });

  it('tells that nobody had it', async () => {
    const parts = await bed({ 'ours/a': has(0) });
    const cancelling = new RequestCanceller(parts).cancel('x');
    await parts.clock.advance(10);
    expect(await cancelling).toEqual({ isCancelled: false, silent: 0 });
  });

  it('counts workers that fail, answer nonsense or stay silent for two seconds', async () => {
    const parts = await bed({
      'ours/a': (call) => call.fail(workerError('Internal')),
      'ours/b': (call) => call.end(),
      'ours/c': (call) => call.accept(),
      'ours/d': has(1),
    });
    const cancelling = new RequestCanceller(parts).cancel('x');
    await parts.clock.advance(2000);
    expect(await cancelling).toEqual({ isCancelled: true, silent: 3 });
  });

  it('asks 64 at once, and ends in time however many do not answer', async () => {
    let asked = 0;
    const silent: PlaneHandler = (call) => {
      asked++;
      call.accept();
    };
    const parts = await bed(Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`ours/${at}`, silent])));
    const cancelling = new RequestCanceller(parts).cancel('x');
    await parts.clock.advance(1000);
    expect(asked).toBe(64);
    await parts.clock.advance(1000);
    expect(await cancelling).toEqual({ isCancelled: false, silent: 100 });
    expect(asked).toBe(64);
  });

  it('fails where discovery cannot be read', async () => {
    const parts = await bed({});
    const hanging = (signal?: AbortSignal): Promise<never> =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    const list = (_query: unknown, signal?: AbortSignal): Promise<never> => hanging(signal);
    const cancelling = new RequestCanceller({ ...parts, discovery: { list } }).cancel('x');
    const failing = expect(cancelling).rejects.toMatchObject({ code: 'service_unavailable' });
    await parts.clock.advance(2000);
    await failing;
  });
});
