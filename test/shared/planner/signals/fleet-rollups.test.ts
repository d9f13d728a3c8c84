import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { PlannerOutbox } from '../../../../shared/planes/index.ts';
import { type PlannerQueue, QueueError } from '../../../../shared/planes/queue/types.ts';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import { applySignal, noReport } from '../../../../shared/planner/decide/apply-signal.ts';
import { handleBatch } from '../../../../shared/planner/decide/handle-batch.ts';
import { startModel } from '../../../../shared/planner/decide/model-state.ts';
import { readyOf } from '../../../../shared/planner/decide/worker-counts.ts';
import { FleetRollups } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import {
  NO_TRAFFIC,
  type PassRow,
  PLANNER_EVENT_BYTES_MAX,
  type PlannerEventOf,
  type PlannerSignal,
  readPlannerText,
} from '../../../../shared/protocol/index.ts';
import { LeaseHolder, type RouterState } from '../../../../shared/router-state/index.ts';
import { createPlannerQueueMetrics, MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { createMemoryEventPlane } from '../../../support/memory-event-plane.ts';
import { MemoryPlannerQueue } from '../../../support/memory-planner-queue.ts';
import { heldAt, rollupOf } from '../../../support/planner/fleet-signals.ts';
import { ToldWorker } from '../../../support/planner/told-fleet.ts';
import { MemoryRouterStateHub } from '../../../support/router/memory-router-state.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const BEGIN_MS = 1_800_000_000_000;
const NEVER = new AbortController().signal;
const LEASE = { namespace: 'ns', name: 'router' };

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A queue that can be away, and knows who was sent what. */
function queueOf(clock: VirtualClock) {
  const queue = new MemoryPlannerQueue(clock);
  const sent: { readonly event: PlannerSignal; readonly atMs: number }[] = [];
  const state = { isAway: false };
  const handle: PlannerQueue = {
    name: 'memory',
    send: async (messages, signal) => {
      if (state.isAway) throw new QueueError('unavailable', 'the queue is away');
      await queue.send(messages, signal);
      for (const { body } of messages) sent.push({ event: JSON.parse(body) as PlannerSignal, atMs: clock.nowMs() });
    },
    receive: (options, signal) => queue.receive(options, signal),
    delete: (messages, signal) => queue.delete(messages, signal),
    close: async () => {},
  };
  return { queue, handle, sent, state };
}

function bedOf(seed = 1) {
  const clock = new VirtualClock(BEGIN_MS);
  const random = seededRandom(seed);
  const hub = new MemoryHub(clock);
  const plane = createMemoryEventPlane({ clock, random });
  const leases = new MemoryRouterStateHub(clock);
  const queue = queueOf(clock);
  const workers: ToldWorker[] = [];
  const holders: (() => Promise<void>)[] = [];

  /** A process that sends while it has the lease. */
  function holder() {
    const { logger, lines } = captureLogger();
    const registry = new MetricRegistry();
    const metrics = createPlannerQueueMetrics(registry);
    const outbox = new PlannerOutbox({ queue: queue.handle, clock, logger, metrics });
    const discovery = new MemoryDiscovery({ hub, clock, random });
    const rollups = new FleetRollups({ discovery, eventPlane: plane, clock, random, logger, outbox });
    rollups.follow(['ns']);
    let isCut = false;
    const table = leases.open();
    const state: RouterState = new Proxy(table, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) =>
          isCut && name !== 'nowMs' && name !== 'close'
            ? Promise.reject(new Error('the table is unreachable'))
            : (value as (...all: unknown[]) => unknown).apply(target, args);
      },
    });
    const lease = new LeaseHolder({
      state,
      lease: LEASE,
      clock,
      random,
      onAcquired: () => rollups.lead(),
      onLost: () => rollups.standBy(),
      onProblem: () => {},
    });
    lease.start();
    let isOver = false;
    const stop = async (): Promise<void> => {
      if (isOver) return;
      isOver = true;
      isCut = false;
      await rollups.close();
      const closed = outbox.close(1000);
      await pass(1100);
      await closed;
      await lease.stop(NEVER);
    };
    holders.push(stop);
    const cut = (yes: boolean): void => {
      isCut = yes;
    };
    return { outbox, rollups, lease, lines, registry, stop, cut };
  }

  /** Lets `ms` pass; every worker tells every five seconds and begins `rate` requests a second. */
  let toldMs = 0;
  async function pass(ms: number, { rate = 0 } = {}): Promise<void> {
    for (let left = ms; left > 0; left -= 100) {
      await clock.advance(100);
      for (const worker of workers) worker.started += rate / 10;
      toldMs += 100;
      if (toldMs % 5000 === 0) for (const worker of workers) worker.tell();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  async function begin(count: number, host?: ToldWorker['host']): Promise<void> {
    for (let at = 0; at < count; at++) {
      const worker = await ToldWorker.begin(workers.length, { hub, plane, clock, random });
      workers.push(worker);
      worker.host = host;
      worker.tell();
    }
  }
  closing.push(async () => {
    for (const stop of holders) await stop();
    for (const worker of workers) await worker.end();
  });
  const rollups = () =>
    queue.sent.flatMap(({ event, atMs }) => (event.type === 'model.rollup' ? [{ ...event, atMs }] : []));
  return { clock, queue, workers, holder, pass, begin, rollups };
}

const idsOf = (event: PlannerEventOf<'model.rollup'> | undefined) => event?.pools.agg?.workers ?? [];

describe('the holder of the lease', () => {
  it('sends one message of a model every five seconds, however many workers tell', async () => {
    const { holder, pass, begin, rollups } = bedOf();
    holder();
    await pass(100);
    await begin(40);
    await pass(60_000, { rate: 1 });
    const sent = rollups();
    expect(sent.length).toBeGreaterThanOrEqual(11);
    expect(sent.length).toBeLessThanOrEqual(12);
    expect(sent.map(idsOf).every((ids) => ids.length === 40)).toBe(true);
    expect(sent.at(-1)?.pools.agg?.totals.started).toBeGreaterThanOrEqual(40 * 50);
    expect(sent.map(({ seq }) => seq)).toEqual(sent.map((_, at) => at));
  });

  it.each(['agg', 'prefill, decode', 'agg on instances'])(
    'fits into an event, however many workers there are: 20,000, %s',
    async (pools) => {
      const { holder, pass, begin, rollups, workers } = bedOf();
      holder();
      await begin(1);
      const speaker = workers[0]!;
      speaker.isDraining = true; // it serves nothing itself
      const isHosted = pools.endsWith(' on instances');
      const components = pools.replace(' on instances', '').split(', ') as ('agg' | 'prefill' | 'decode')[];
      const last = [0.123456, 1, 4096, 65_536, 200, 1_234_567, 8, 32_768, 2, 4096] as PassRow;
      const rank = { ...rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS).ranks[0]!, last };
      const samples = Array.from({ length: 16 }, () => last);
      for (let at = 0; at < 19_999; at++) {
        const worker_id = (2 ** 52 + at * 7919).toString(16);
        const component = components[at % components.length]!;
        speaker.tell({
          worker_id,
          draining: false,
          epoch: 'e',
          component,
          ranks: [at % 100 === 0 ? { ...rank, samples } : rank],
          ...(isHosted ? { host: { instance_id: `i-${worker_id}` } } : {}),
        });
      }
      await pass(11_000);
      const [event] = rollups().slice(-1);
      const { atMs, ...sent } = event!;
      expect(Buffer.byteLength(JSON.stringify(sent))).toBeLessThanOrEqual(PLANNER_EVENT_BYTES_MAX);
      const read = readPlannerText(JSON.stringify(sent));
      if (read.kind !== 'event') throw new Error(read.problem);
      const signal = read.event as PlannerSignal; // of the queue
      const state = startModel(BEGIN_MS / 1000);
      applySignal(state, { signal, sentAtS: BEGIN_MS / 1000 + 18 }, noReport());
      const ready = components.includes('prefill') ? [10_000, 9999] : [0, 19_999];
      expect([readyOf(state, 'prefill'), readyOf(state, 'decode')]).toEqual(ready);
    },
  );

  it('says nothing before every worker that is there has spoken, so that none seems lost', async () => {
    const { holder, pass, begin, rollups, workers } = bedOf();
    await begin(6);
    await pass(5100);
    const slow = workers.splice(3);
    holder();
    await pass(5100); // half of them have told, and the time of a message has come
    expect(rollups()).toEqual([]);
    for (const worker of slow) worker.tell();
    workers.push(...slow);
    await pass(20_000);
    expect(rollups().length).toBeGreaterThan(1);
    expect(rollups().map((each) => idsOf(each).length)).toEqual(rollups().map(() => 6));
  });

  it('tells at once of workers that come, drain and go', async () => {
    const { holder, pass, begin, queue, workers } = bedOf();
    holder();
    await begin(2);
    await pass(10_000);
    const since = (): readonly string[] =>
      queue.sent.flatMap(({ event }) =>
        'worker_id' in event && !('source' in event) ? [`${event.type} ${event.worker_id}`] : [],
      );
    const before = since().length;
    await begin(1);
    await pass(200);
    workers[0]!.isDraining = true;
    workers[0]!.tell();
    await pass(200);
    const [gone] = workers.splice(1, 1);
    await gone!.end();
    await pass(200);
    expect(since().slice(before)).toEqual([
      `worker.registered ${workers[1]!.id}`,
      `worker.draining ${workers[0]!.id}`,
      `worker.gone ${gone!.id}`,
    ]);
  });

  it('say on which instance a worker runs', async () => {
    const { holder, begin, pass, queue, rollups, workers } = bedOf();
    holder();
    await begin(1);
    await pass(20_000);
    const place = { instance_id: 'i-0123', zone: 'us-east-1b', market: 'spot' };
    await begin(1, { ...place, group: 'chat-1-spot' });
    await pass(200);
    const latest = (type: string) => queue.sent.findLast(({ event }) => event.type === type)?.event;
    expect(latest('worker.registered')).toMatchObject({ worker_id: workers[1]!.id, ...place });
    await pass(5000);
    expect(rollups().at(-1)?.pools.agg).toMatchObject({ instances: [null, 'i-0123'] });
    await workers.pop()!.end();
    await pass(200);
    expect(latest('worker.gone')).toMatchObject({ instance_id: 'i-0123' });
  });

  it('hands on what edges hold, and what an edge has sent itself counts once', async () => {
    const { holder, pass, queue } = bedOf();
    const { outbox } = holder();
    const other = holder();
    await pass(1000);
    const { signal } = heldAt(0, 0, 3);
    outbox.put(signal); // both processes have it
    other.outbox.put(signal);
    await pass(500);
    expect(queue.sent).toHaveLength(2);
    const received = await queue.queue.receive({ waitMs: 0, hiddenMs: 1000 }, NEVER);
    expect(received.map(({ body }) => JSON.parse(body) as PlannerSignal)).toEqual([signal]);
  });
});

describe('two processes, of which one has the lease', () => {
  it('hand over: the next one knows every worker, and no two send at a time', async () => {
    const bed = bedOf();
    const { holder, pass, begin, rollups } = bed;
    const first = holder();
    await begin(5);
    await pass(12_000, { rate: 1 });
    const second = holder();
    await pass(10_000, { rate: 1 });
    expect(new Set(rollups().map(({ source }) => source)).size).toBe(1);
    await first.stop(); // gives the lease back
    await pass(15_000, { rate: 1 });
    const sources = [...new Set(rollups().map(({ source }) => source))];
    expect(sources).toHaveLength(2);
    const ofSecond = rollups().filter(({ source }) => source === sources[1]);
    expect(ofSecond[0]?.seq).toBe(0);
    expect(ofSecond.map((each) => idsOf(each).length)).toEqual(ofSecond.map(() => 5));
    expect(second.lease.fence).toBeDefined();
  });

  it('leave what was not sent to the next one: it says who is there now', async () => {
    const { holder, pass, begin, queue, rollups } = bedOf();
    const first = holder();
    const second = holder();
    await begin(2);
    await pass(12_000);
    const [{ source } = { source: '' }] = rollups();
    const before = rollups().length;
    queue.state.isAway = true;
    await pass(6000);
    first.cut(true);
    await pass(30_000);
    expect(second.lease.fence).toBeDefined();
    queue.state.isAway = false;
    await pass(10_000);
    const after = rollups().slice(before);
    expect(after.length).toBeGreaterThan(0);
    expect(after.map((each) => each.source)).not.toContain(source);
    expect(await first.registry.render()).toMatch(/outcome="handed_over"\} 1/);
  });

  it('never count a request twice, whichever process loses the table and whenever', async () => {
    const step = fc.record({
      who: fc.nat(1),
      isCut: fc.boolean(),
      isAway: fc.boolean(),
      seconds: fc.integer({ min: 1, max: 25 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        const { holder, pass, begin, rollups, workers, queue } = bedOf();
        const holders = [holder(), holder()];
        await pass(1000);
        await begin(3);
        await pass(5000, { rate: 2 });
        for (const { who, isCut, isAway, seconds } of steps) {
          queue.state.isAway = isAway;
          holders[who]!.cut(isCut);
          await pass(seconds * 1000, { rate: 2 });
        }
        queue.state.isAway = false;
        await pass(6000, { rate: 2 });
        const latest = new Map<string, number>();
        const order: string[] = [];
        for (const { source, epoch, pools } of rollups()) {
          const term = `${source}/${epoch}`;
          latest.set(term, pools.agg?.totals.started ?? 0);
          if (order.at(-1) !== term) order.push(term);
        }
        expect(new Set(order).size).toBe(order.length); // a term that is over sends nothing
        const counted = [...latest.values()].reduce((total, each) => total + each, 0);
        const began = workers.reduce((total, { started }) => total + started, 0);
        expect(counted).toBeLessThanOrEqual(began);
        for (const close of closing.splice(0)) await close();
      }),
      { numRuns: 25 },
    );
  });
});

describe('while the queue is away', () => {
  it('nothing is lost in 30 seconds: the next message has what all of them counted', async () => {
    const { holder, pass, begin, queue, rollups, workers } = bedOf();
    const { lines, registry } = holder();
    await pass(100);
    await begin(3);
    await pass(20_000, { rate: 4 });
    queue.state.isAway = true;
    const before = rollups().length;
    await pass(30_000, { rate: 4 });
    expect(rollups()).toHaveLength(before);
    queue.state.isAway = false;
    await pass(10_000, { rate: 4 });
    const last = rollups().at(-1);
    const toldS = (last!.atMs - 100) / 1000;
    expect(last?.pools.agg?.totals.started).toBeGreaterThanOrEqual(3 * 4 * (toldS - 10));
    expect(workers).toHaveLength(3);
    expect(lines.map(({ message }) => message)).toEqual([
      'the planner queue takes no events; trying again',
      'the planner queue takes events again',
    ]);
    const text = await registry.render();
    expect(text).toMatch(/stator_planner_queue_events_total\{outcome="superseded"\} [1-9]/);
    expect(text).toMatch(/stator_planner_queue_failures_total [1-9]/);
    expect(text).toMatch(/stator_planner_queue_waiting_events 0/);
  });

  it('a planner that reads the queue decides the same, through a change of the lease', async () => {
    const { holder, pass, begin, queue } = bedOf();
    const first = holder();
    holder();
    await pass(100);
    await begin(4);
    const store = new MemoryPlannerStore();
    const planner = {
      config: parsePlannerConfig({ mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 60 }),
      engines: { decode: { gpus: 1 } },
    };
    const plan = async (seconds: number): Promise<void> => {
      for (let at = 0; at < seconds; at++) {
        await pass(1000, { rate: 10 }); // 40/s of four workers: 5 are needed
        const batch = await queue.queue.receive({ waitMs: 0, hiddenMs: 30_000 }, NEVER);
        if (batch.length === 0) continue;
        await handleBatch(batch, { store, group: 'g', planner }, NEVER);
        await queue.queue.delete(batch, NEVER);
      }
    };
    await plan(40);
    queue.state.isAway = true;
    await plan(20);
    queue.state.isAway = false;
    await first.stop();
    await plan(60);
    const decisions = await store.decisions('g', { sinceMs: 0 }, NEVER);
    const targets = decisions.map((each) => each.targets.decode);
    expect(new Set(targets)).toEqual(new Set([5])); // neither shrinks nor grows by what was not heard
  });
});
