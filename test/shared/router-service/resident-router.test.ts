import { describe, expect, it } from 'vitest';
import { seededRandom, systemClock, systemRandom } from '../../../shared/clock/index.ts';
import type { PlaneHandler, RequestPlane } from '../../../shared/planes/index.ts';
import { createTcpRequestPlane } from '../../../shared/planes/request/tcp/plane.ts';
import type { Reservation, RouteRequest, Router } from '../../../shared/router/index.ts';
import {
  createFallbackMetrics,
  queryOf,
  type ResidentAddress,
  ResidentClient,
  ResidentRouter,
  ResidentService,
  serveRouterOnPlane,
} from '../../../shared/router-service/index.ts';
import type { EmbeddedRouter } from '../../../shared/router-service/resident-router.ts';
import { Inhibition, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { StatelessRouter } from '../../../shared/stateless-router/index.ts';
import { MetricRegistry, type Span, Tracer } from '../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { NEVER, POOL, prompt, Resident, request, settle, WORKERS, worker } from './resident-rig.ts';

/** A process that asks residents, on a memory plane and a virtual clock. */
class Asker {
  readonly client: ResidentClient;
  readonly router: Router;
  readonly inhibition: Inhibition;
  readonly log = captureLogger();
  readonly #registry = new MetricRegistry();

  constructor(clock: VirtualClock, plane: RequestPlane, embedded?: EmbeddedRouter) {
    const inhibition = new Inhibition(clock, 5000);
    this.inhibition = inhibition;
    this.client = new ResidentClient({ plane, clock, random: seededRandom(9) });
    this.router = new ResidentRouter({
      client: this.client,
      embedded,
      stateless: new StatelessRouter({ clock, inhibition }),
      inhibition,
      metrics: createFallbackMetrics(this.#registry),
      logger: this.log.logger,
    });
  }

  async know(...residents: readonly ResidentAddress[]): Promise<void> {
    this.client.setResidents(residents);
    await settle();
  }

  choose(asked: RouteRequest, signal = NEVER, workers = WORKERS): Promise<Reservation> {
    return choose(this.router, asked, workers, signal);
  }

  async metric(name: string, label: string): Promise<number> {
    const line = (await this.#registry.render()).split('\n').find((text) => text.startsWith(`${name}{${label}`));
    return Number(line?.slice(line.lastIndexOf(' ') + 1));
  }
}

function bed() {
  const clock = new VirtualClock();
  const plane = createMemoryRequestPlane({ clock });
  return { clock, plane };
}

/** A router of this process that always takes worker `b`. */
function embeddedRouter(clock: VirtualClock, isFresh: () => boolean): EmbeddedRouter {
  const inhibition = new Inhibition(clock, 0);
  const router = new SimpleRouter({ mode: 'round-robin', random: seededRandom(1), inhibition });
  return {
    router: {
      ...router,
      mode: 'kv',
      setWorkers: (pool, workers) => router.setWorkers(pool, workers),
      removePool: (pool) => router.removePool(pool),
      choose: (asked, signal) => router.choose({ ...asked, routing: { backend_instance_id: 'b' } }, signal),
    },
    isFresh,
  };
}

/** Something that is registered as a resident router and behaves as `choose` does. */
async function impostor(plane: RequestPlane, choose: PlaneHandler): Promise<ResidentAddress & { released: unknown[] }> {
  const server = await plane.serve({ instanceId: 'f' });
  const released: unknown[] = [];
  return {
    instanceId: 'f',
    choose: server.handle('f/ns/router/choose', (call) => {
      if ((call.body as { probe?: boolean }).probe) call.end();
      else return choose(call);
    }),
    release: server.handle('f/ns/router/release', (call) => {
      released.push(call.body);
      call.end();
    }),
    explain: server.handle('f/ns/router/explain', (call) => call.end()),
    released,
  };
}

const DECISION = { worker_id: 'a', dp_rank: 0, overlap_blocks: 3, cached_tokens: 48, reservation_id: 'r1' };

describe('a router that asks the resident one', () => {
  it('goes where the resident says, and tells it when the first token and the end are there', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    resident.store('b', prompt(160));
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    const held = await asker.choose(request('r', prompt(160)));
    expect(held).toMatchObject({ worker: WORKERS[1], dpRank: 0, overlapBlocks: 10, cachedTokens: 160 });
    const second = await asker.choose(request('r2', prompt(160, 7)));
    const { id } = second.worker;
    expect(resident.loadOf(id).prefill).toBeGreaterThan(0);
    second.prefillDone();
    await settle();
    expect(resident.loadOf(id).prefill).toBe(0);
    held.release();
    held.release();
    second.release();
    await settle();
    expect(resident.service.reservations).toBe(0);
    expect(await asker.metric('stator_router_decisions_total', 'source="resident"')).toBe(2);
    expect(asker.log.lines).toEqual([]);
  });

  it('tells the resident how long answers are, so that it expects as many decode steps', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane, { costModel: 'stator' });
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    const decodeMs = () => resident.service.explain(queryOf(request('x', prompt(160)))).candidates[0]!.terms.decode!;
    const beforeMs = decodeMs();
    for (let at = 0; at < 60; at++) {
      const held = await asker.choose(request(`r${at}`, prompt(160)));
      await clock.advance(100);
      held.prefillDone();
      await settle();
      await clock.advance(120);
      held.produced(20); // instead of 200
      held.release();
      await settle();
    }
    expect(decodeMs()).toBeLessThan(0.6 * beforeMs);
  });

  it('tells the worker of the place that the resident holds', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    const held = await asker.choose(request('r', prompt(160)));
    expect(held.headers).toEqual({ 'x-stator-reservation': expect.stringMatching(/^[0-9a-f]+$/) });
  });

  it('keeps its hints, and what it knows of workers that failed', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    const pinned = await asker.choose(request('r1', prompt(16), { routing: { backend_instance_id: 'b' } }));
    expect(pinned.worker.id).toBe('b');
    pinned.release();
    resident.store('b', prompt(160));
    asker.inhibition.add('b');
    expect((await asker.choose(request('r2', prompt(160)))).worker.id).toBe('a');
    expect((await asker.choose(request('r3', prompt(160), { excluded: new Set(['a']) }))).worker.id).toBe('b');
    asker.inhibition.forget('b');
    expect((await asker.choose(request('r4', prompt(160)))).worker.id).toBe('b');
  });

  it('waits in the queue of the resident beyond the deadline of the first message', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    const held = [await asker.choose(request('r1', prompt(160, 1))), await asker.choose(request('r2', prompt(160, 2)))];
    for (const reservation of held) resident.service.reported(reservation.worker.id, ['r1', 'r2'], []);
    const waiting = asker.choose(request('r3', prompt(160, 3)));
    await settle();
    await clock.advance(60_000);
    await settle();
    expect(resident.pending).toBe(1);
    held[0]?.release();
    expect((await waiting).worker).toBe(held[0]?.worker);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="silent"')).toBe(0);
  });

  it('leaves the queue when its request is cancelled', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    for (const at of [1, 2]) await asker.choose(request(`held ${at}`, prompt(160, at)));
    const gone = new AbortController();
    const waiting = asker.choose(request('r3', prompt(160, 3)), gone.signal);
    await settle();
    expect(resident.pending).toBe(1);
    gone.abort(new Error('client gone'));
    await expect(waiting).rejects.toThrow('client gone');
    await settle();
    expect([resident.pending, resident.service.waiting]).toEqual([0, 0]);
  });

  it('can show why the resident decided as it did, and would decide', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    resident.store('b', prompt(160));
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    await asker.choose(request('r', prompt(160)));
    const made = asker.client.explain('r');
    const planned = asker.client.explain(queryOf(request('x', prompt(160))));
    await settle();
    expect(await made).toMatchObject({ request_id: 'r', chosen: { worker_id: 'b' } });
    expect(await planned).toMatchObject({ request_id: 'x', blocks: 10 });
    const unknown = asker.client.explain('unknown');
    await settle();
    expect(await unknown).toBeUndefined();
  });

  it('fails a request that the resident turns down', async () => {
    const { clock, plane } = bed();
    const busy = new Set(['a', 'b']);
    const findPool = () => ({ pool: request('r', prompt(1)).pool!, workers: WORKERS, busy });
    const resident = await Resident.open(clock, plane, { findPool });
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    await expect(asker.choose(request('r', prompt(16)))).rejects.toMatchObject({ code: 'server_overloaded' });
  });
});

describe('a router whose resident does not answer', () => {
  it('decides without one when none is registered', async () => {
    const { clock, plane } = bed();
    const asker = new Asker(clock, plane);
    const held = await asker.choose(request('r', prompt(160)));
    expect(WORKERS).toContain(held.worker);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="no_resident"')).toBe(1);
    expect(await asker.metric('stator_router_decisions_total', 'source="stateless"')).toBe(1);
  });

  it('takes its own index while that is fresh, then hashes; says each change once', async () => {
    const { clock, plane } = bed();
    let isFresh = true;
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(
      clock,
      plane,
      embeddedRouter(clock, () => isFresh),
    );
    await asker.know(resident.address);
    await asker.choose(request('r0', prompt(16)));
    resident.isLeader = false;
    for (const id of ['r1', 'r2', 'r3']) expect((await asker.choose(request(id, prompt(16)))).worker.id).toBe('b');
    isFresh = false;
    for (const id of ['r4', 'r5']) await asker.choose(request(id, prompt(16)));
    resident.isLeader = true;
    await asker.choose(request('r6', prompt(16)));
    expect(asker.log.lines.map(({ level, fields }) => [level, fields?.source])).toEqual([
      ['warn', 'embedded'],
      ['warn', 'stateless'],
      ['info', undefined],
    ]);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="standby"')).toBe(5);
    expect(await asker.metric('stator_router_decisions_total', 'source="embedded"')).toBe(3);
  });

  it('gives up a silent one after 10 ms, and gives back what it decides too late', async () => {
    const { clock, plane } = bed();
    const answers: (() => void)[] = [];
    const silent = await impostor(plane, (call) => {
      answers.push(() => {
        call.output({ body: { decision: DECISION } });
        call.end();
      });
    });
    const asker = new Asker(
      clock,
      plane,
      embeddedRouter(clock, () => true),
    );
    await asker.know(silent);
    const choosing = asker.choose(request('r', prompt(16)));
    await settle();
    await clock.advance(9);
    let isSettled = false;
    void choosing.then(() => {
      isSettled = true;
    });
    await settle();
    expect(isSettled).toBe(false);
    await clock.advance(1);
    expect((await choosing).worker.id).toBe('b');
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="silent"')).toBe(1);
    for (const answer of answers) answer();
    await settle();
    expect(silent.released).toEqual([{ request_id: 'r', reservation_id: 'r1', stage: 'end' }]);
  });

  it('keeps waiting if the router says again that the request waits', async () => {
    const { clock, plane } = bed();
    const talkative = await impostor(plane, (call) => {
      call.output({ body: { queued: { position: 1 } } });
      call.output({ body: { queued: { position: 0 } } });
      void clock.sleep(20).then(() => {
        call.output({ body: { decision: DECISION } });
        call.end();
      });
    });
    const asker = new Asker(
      clock,
      plane,
      embeddedRouter(clock, () => true),
    );
    await asker.know(talkative);
    const choosing = asker.choose(request('r', prompt(16)));
    await settle();
    await clock.advance(20);
    await settle();
    await choosing;
    expect(await asker.metric('stator_router_decisions_total', 'source="resident"')).toBe(1);
  });

  it('leaves the queue that it hears of too late', async () => {
    const { clock, plane } = bed();
    const signals: AbortSignal[] = [];
    const slow = await impostor(plane, async (call) => {
      signals.push(call.signal);
      await clock.sleep(20);
      call.output({ body: { queued: { position: 0 } } });
    });
    const asker = new Asker(clock, plane);
    await asker.know(slow);
    const choosing = asker.choose(request('r', prompt(16)));
    await settle();
    await clock.advance(10);
    await choosing;
    await clock.advance(10);
    await settle();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it('lets no request wait again for one that was silent, and uses it as soon as it is back', async () => {
    const { clock, plane } = bed();
    let isSilent = true;
    const asked: string[] = [];
    const moody = await impostor(plane, (call) => {
      asked.push(call.id);
      if (isSilent) return;
      call.output({ body: { decision: DECISION } });
      call.end();
    });
    const asker = new Asker(
      clock,
      plane,
      embeddedRouter(clock, () => true),
    );
    await asker.know(moody);
    const first = asker.choose(request('r1', prompt(16)));
    await settle();
    await clock.advance(10);
    await first;
    await asker.choose(request('r2', prompt(16))); // no time passes: it does not ask
    expect(asked).toEqual(['r1']);
    isSilent = false;
    await clock.advance(250);
    await asker.choose(request('r3', prompt(16))); // sees beside it that the router is there
    await settle();
    expect((await asker.choose(request('r4', prompt(16)))).worker.id).toBe('a');
  });

  it('asks the next one when the first is a standby, and remembers who answered', async () => {
    const { clock, plane } = bed();
    const refused: string[] = [];
    const standby = await Resident.open(clock, plane, { instanceId: '1' });
    standby.isLeader = false;
    const holder = await Resident.open(clock, plane, { instanceId: '2' });
    const asker = new Asker(clock, plane);
    await asker.know(standby.address, holder.address);
    await asker.choose(request('r1', prompt(16)));
    standby.isLeader = true; // were it asked first, it would answer now
    await asker.choose(request('r2', prompt(16)));
    expect([standby.service.reservations, holder.service.reservations]).toEqual([0, 2]);
    expect(refused).toEqual([]);
  });

  it('fails no request when the resident dies, not even one that waits in its queue', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane);
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    for (const at of [1, 2]) await asker.choose(request(`held ${at}`, prompt(160, at)));
    const waiting = asker.choose(request('r3', prompt(160, 3)));
    await settle();
    expect(resident.pending).toBe(1);
    await resident.server.close();
    expect(WORKERS).toContain((await waiting).worker);
    expect(WORKERS).toContain((await asker.choose(request('r4', prompt(160)))).worker);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="lost"')).toBe(2);
  });

  it('gives back a place at a worker that it has not heard of', async () => {
    const { clock, plane } = bed();
    const resident = await Resident.open(clock, plane, { workers: [worker('c')] });
    const asker = new Asker(clock, plane);
    await asker.know(resident.address);
    expect(WORKERS).toContain((await asker.choose(request('r', prompt(16)))).worker);
    await settle();
    expect(resident.service.reservations).toBe(0);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="unknown_worker"')).toBe(1);
  });

  it.each([
    ['a decision without a worker', { decision: { reservation_id: 'r1' } }],
    ['a negative position', { queued: { position: -1 } }],
    ['a record of another kind', 'hello'],
  ])('decides itself when the answer is %s', async (_, body) => {
    const { clock, plane } = bed();
    const odd = await impostor(plane, (call) => {
      call.output({ body });
      call.end();
    });
    const asker = new Asker(clock, plane);
    await asker.know(odd);
    expect(WORKERS).toContain((await asker.choose(request('r', prompt(16)))).worker);
  });
});

describe('over TCP', () => {
  it('a decision crosses, with hashes of 64 bits', async () => {
    const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
    const server = await plane.serve({ instanceId: '1' });
    const rig = await Resident.open(new VirtualClock());
    rig.store('b', prompt(16_000));
    const service = new ResidentService({
      router: rig.kv,
      kv: rig.kv,
      clock: systemClock,
      random: systemRandom,
      findPool: () => ({ pool: POOL }),
      isLeader: () => true,
    });
    const endpoints = serveRouterOnPlane(server, { instanceId: '1', namespace: 'ns' }, service);
    const transportOf = (name: string) => endpoints.find(({ endpoint }) => endpoint === name)!.transport;
    const patience = { connectTimeoutMs: 5000, chooseTimeoutMs: 5000 }; // how quick it is, is not what is looked at
    const client = new ResidentClient({ plane, clock: systemClock, random: systemRandom, ...patience });
    client.setResidents([
      {
        instanceId: '1',
        choose: transportOf('choose'),
        release: transportOf('release'),
        explain: transportOf('explain'),
      },
    ]);
    await client.open();
    const inhibition = new Inhibition(systemClock, 0);
    const router = new ResidentRouter({
      client,
      stateless: new StatelessRouter({ clock: systemClock, inhibition }),
      inhibition,
      metrics: createFallbackMetrics(new MetricRegistry()),
      logger: captureLogger().logger,
    });
    const held = await choose(router, request('r', prompt(16_000)), WORKERS);
    expect(held).toMatchObject({ worker: WORKERS[1], overlapBlocks: 1000 });
    service.close();
    await plane.close();
    await server.close();
  });
});

it('names the span of the request to the resident, which says in one below it what it decided', async () => {
  const { clock, plane } = bed();
  const spans: Span[] = [];
  const tracer = new Tracer({ clock, random: seededRandom(4), sinks: [{ ended: (span) => spans.push(span) }] });
  const resident = await Resident.open(clock, plane, { tracer });
  const asker = new Asker(clock, plane);
  await asker.know(resident.address);
  const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`;
  const { worker: chosen } = await asker.choose(request('a', prompt(64), { traceparent }));
  await asker.choose(request('b', prompt(64)));
  expect(spans.map(({ name, kind, error }) => [name, kind, error])).toEqual(
    Array(2).fill(['choose', 'server', undefined]),
  );
  expect(spans[0]).toMatchObject({
    context: { traceId: 'ab'.repeat(16), parentSpanId: 'cd'.repeat(8) },
    attributes: { request_id: 'a', worker_id: chosen.id },
  });
  expect(spans[1]!.context.parentSpanId).toBeUndefined();
});
