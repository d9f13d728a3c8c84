import { describe, expect, it } from 'vitest';
import {
  defaultKvRouterConfig,
  type KvRouterConfig,
  type SchedulingRequest,
} from '../../../../shared/scheduler/index.ts';
import type { Waiting } from '../../../../shared/scheduler/queue/class-queue.ts';
import { singleClass } from '../../../../shared/scheduler/queue/policy-config.ts';
import { PolicyQueue } from '../../../../shared/scheduler/queue/policy-queue.ts';
import type { SchedulableWorker } from '../../../../shared/scheduler/types.ts';
import { Pool, promptTokens, worker } from '../pool.ts';

const MODELS: readonly (readonly [name: KvRouterConfig['costModel'], config: Partial<KvRouterConfig>])[] = [
  ['stator', { costModel: 'stator', queueThreshold: 'auto' }],
  ['dynamo', { costModel: 'dynamo', queueThreshold: 0.001 }],
];
const SOME = new Set(['1', '2']);

/** Thirty-one workers; the first two alone have a taint. */
function fleet(): readonly SchedulableWorker[] {
  return Array.from({ length: 31 }, (_, at) =>
    worker((at + 1).toString(16), { maxNumBatchedTokens: 8192, taints: at < 2 ? ['big'] : [] }),
  );
}

/** What limits a request to the first two workers, in each way in which that can be said. */
const LIMITS: readonly (readonly [how: string, limit: Partial<SchedulingRequest>])[] = [
  ['a taint', { constraints: { required_taints: ['big'] } }],
  ['allowed ids, as adapters set them', { allowedWorkers: SOME }],
  ['workers that failed it', { excludedWorkers: new Set(fleet().flatMap(({ id }) => (SOME.has(id) ? [] : [id]))) }],
  [
    'workers at their busy threshold',
    { busyWorkers: new Set(fleet().flatMap(({ id }) => (SOME.has(id) ? [] : [id]))) },
  ],
];

describe.each(MODELS)('requests that only busy workers may take, with the cost model %s', (_, config) => {
  it.each(LIMITS)('delay no other requests: %s', (_how, limit) => {
    const pool = new Pool({ workers: fleet(), config });
    for (const at of [0, 1]) pool.submit(`long${at}`, promptTokens(50_000, at), limit);
    const stuck = pool.submit('stuck', promptTokens(2500, 2), limit);
    expect(stuck.ticket.isWaiting).toBe(true);
    const free = Array.from({ length: 29 }, (_free, at) => pool.submit(`free${at}`, promptTokens(3000, 10 + at)));
    expect(free.every(({ decision }) => decision !== undefined)).toBe(true);
    expect(pool.scheduler.loads().filter(({ activeRequests }) => activeRequests > 0)).toHaveLength(31);
    expect(stuck.ticket.isWaiting).toBe(true);
    pool.scheduler.free('long0');
    expect(SOME.has(stuck.decision?.workerId ?? '')).toBe(true);
  });

  it('go first, once their worker has room, before those that came later and could go there', () => {
    const pool = new Pool({ workers: fleet().slice(0, 2), config });
    pool.submit('long1', promptTokens(50_000, 1), { allowedWorkers: new Set(['1']) });
    pool.submit('long2', promptTokens(50_000, 2), { allowedWorkers: new Set(['2']) });
    const first = pool.submit('first', promptTokens(2500, 3), { allowedWorkers: new Set(['1']) });
    const later = pool.submit('later', promptTokens(2500, 4));
    expect([first, later].map(({ ticket }) => ticket.isWaiting)).toEqual([true, true]);
    pool.scheduler.free('long1');
    expect(first.decision?.workerId).toBe('1');
    expect(later.decision).toBeUndefined();
    pool.scheduler.free('long2');
    expect(later.decision?.workerId).toBe('2');
  });

  it('stand in one line with those that the same workers may take, in the order of arrival', () => {
    const pool = new Pool({ workers: fleet(), config });
    for (const at of [0, 1]) pool.submit(`long${at}`, promptTokens(50_000, at), LIMITS[1]?.[1]);
    const waiting = Array.from({ length: 4 }, (_each, at) =>
      pool.submit(`w${at}`, promptTokens(2500, 5 + at), { allowedWorkers: new Set(at % 2 ? ['1', '2'] : ['2', '1']) }),
    );
    expect(waiting.map(({ ticket }) => ticket.position)).toEqual([0, 1, 2, 3]);
    pool.scheduler.free('long1');
    expect(waiting.map(({ decision }) => decision !== undefined)).toEqual([true, false, false, false]);
  });
});

describe('time alone', () => {
  it('makes room for the waiting request, not for a new one that other workers could take', async () => {
    const pool = new Pool({ workers: fleet().slice(0, 2), config: { costModel: 'stator', queueThreshold: 'auto' } });
    pool.submit('runs1', promptTokens(2000, 1), { allowedWorkers: new Set(['1']) });
    pool.submit('runs2', promptTokens(50_000, 2), { allowedWorkers: new Set(['2']) });
    const waits = pool.submit('waits', promptTokens(2500, 3), { allowedWorkers: new Set(['1']) });
    expect(waits.decision).toBeUndefined();
    await pool.clock.advance(1000); // the first prefill must be over, and nobody has looked at the queue since
    const comes = pool.submit('comes', promptTokens(2500, 4));
    expect(waits.decision?.workerId).toBe('1');
    expect(comes.decision).toBeUndefined();
  });
});

describe('ten thousand waiting requests', () => {
  function waitingQueue(limit: (at: number) => Partial<SchedulingRequest>) {
    const queue = new PolicyQueue(singleClass(defaultKvRouterConfig), 100_000);
    const all = Array.from({ length: 10_000 }, (_, at) => {
      const request = {
        id: `${at}`,
        promptTokens: 1,
        hashes: { local: new Uint32Array(0), sequence: new Uint32Array(0) },
      };
      const waiting = {
        weighed: { request: { ...request, ...limit(at) } },
        order: at,
        key: -at,
        line: queue.lineFor(undefined, () => 1),
        costTokens: 1,
        cachedTokens: 0,
        heapAt: -1,
      } as Waiting;
      queue.add(waiting);
      return waiting;
    });
    return { queue, all };
  }

  it('are not all checked at a change, even if each is limited to other workers', () => {
    const { queue, all } = waitingQueue((at) => ({ allowedWorkers: new Set([`w${at}`, 'x']) }));
    let looks = 0;
    const canGo = (): boolean => {
      looks++;
      return false;
    };
    expect(queue.next(canGo)).toBeUndefined();
    expect(looks).toBeLessThanOrEqual(65);
    const left: Waiting[] = [];
    for (let next = queue.next(() => true); next !== undefined; next = queue.next(() => true)) left.push(next);
    expect(left).toEqual(all); // in their order, and none is lost
    expect(queue.requests).toBe(0);
  });

  it('leave the line of those that any worker may take alone', () => {
    const { queue } = waitingQueue((at) => (at % 2 === 0 ? { allowedWorkers: new Set([`w${at}`]) } : {}));
    let looks = 0;
    const next = queue.next(({ weighed }) => {
      looks++;
      return weighed.request.allowedWorkers === undefined;
    });
    expect(next?.order).toBe(1);
    expect(looks).toBeLessThanOrEqual(66);
  });

  it('go on in whatever order they leave', () => {
    const { queue, all } = waitingQueue((at) => ({ allowedWorkers: new Set([`w${at % 200}`]) }));
    for (const waiting of all) if (waiting.order % 3 === 0) expect(queue.remove(waiting)).toBe(true);
    const rest = all.filter(({ order }) => order % 3 !== 0);
    const left: Waiting[] = [];
    for (let next = queue.next(() => true); next !== undefined; next = queue.next(() => true)) left.push(next);
    expect(left).toEqual(rest);
  });
});
