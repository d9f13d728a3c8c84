import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SYSTEM, seededRandom, systemClock } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { Discovery } from '../../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { openHold } from '../../../../shared/frontends/process/hold.ts';
import {
  createNatsEventPlane,
  type EventEnvelope,
  type EventPlane,
  NatsClient,
} from '../../../../shared/planes/index.ts';
import { HeldReporter } from '../../../../shared/planner/index.ts';
import { createHeldNoteMetrics, MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { hasNatsServer, type NatsServer, startNatsServer, waitUntil } from '../../../support/index.ts';
import { createMemoryEventPlane } from '../../../support/memory-event-plane.ts';
import { MemoryHeldNotes } from '../../../support/memory-held-notes.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const SCOPE = { kind: 'namespace', namespace: 'prod' } as const;
/** Where the workers of the models were. */
/** By what clients call a model: `b` is one that its workers call `own-b`. */
const FLEETS: Readonly<Record<string, { readonly namespace: string; readonly ownName: string }>> = {
  a: { namespace: 'prod', ownName: 'a' },
  b: { namespace: 'prod', ownName: 'own-b' },
  c: { namespace: 'other', ownName: 'c' },
};

const PROOF = 'heard by itself';

/** A hold in virtual time that notes what it holds. */
function openNotedHold() {
  const clock = new VirtualClock();
  const notes = new MemoryHeldNotes(clock);
  const registry = new MetricRegistry();
  const metrics = createHeldNoteMetrics(registry);
  const reports = new HeldReporter({ open: async () => notes, holder: 'one', clock, logger: silentLogger, metrics });
  const { settings } = resolveConfig('function', [], { STATOR_HOLD_TIMEOUT: '30' });
  const opened = openHold(settings, {
    ...{ clock, random: seededRandom(5), registry, logger: silentLogger, reports },
    discovery: new MemoryDiscovery({ hub: new MemoryHub(clock), clock }),
    ...{ openEventPlane: undefined, isLasting: false },
    fleetOf: (model) => FLEETS[model],
    models: () => ['a', 'b'],
  });
  if (opened === undefined) throw new Error('nothing is held');
  const noted = (group: string) => notes.live(group, new AbortController().signal);
  return { clock, noted, registry, ...opened };
}

/** What a planner in the namespace hears from now on: it finds publishers in discovery. */
async function listen(plane: EventPlane, discovery: Discovery): Promise<EventEnvelope[]> {
  const heard: EventEnvelope[] = [];
  let isListening = false;
  const subscription = await plane.subscribe(SCOPE, 'request_held', {
    event: (envelope) => {
      if (envelope.payload === PROOF) isListening = true;
      else heard.push(envelope);
    },
  });
  await discovery.watch(
    { bucket: 'v1/event_channels', prefix: 'namespace/prod' },
    {
      event: (event) => {
        if (event.kind === 'added' && event.record.type === 'EventChannel') {
          subscription.connect(event.record.instance_id, event.record.transport);
        }
      },
    },
  );
  const own = await plane.publisher(SCOPE, 'request_held');
  subscription.connect(own.publisherId, own.transport);
  own.publish(PROOF); // a broker has to be told of subscribers first
  await waitUntil(() => isListening, { what: 'a subscription' });
  await own.close();
  return heard;
}

/** Holds two requests of one model and one of each other, with a planner listening, and closes everything. */
async function holdAndListen(
  frontend: EventPlane,
  planner: EventPlane,
  flags = ['--namespace-prefix=pr'],
  models = ['a', 'a', 'c', 'unknown', 'b'],
) {
  const hub = new MemoryHub(systemClock);
  const openDiscovery = (seed: number) => new MemoryDiscovery({ hub, clock: systemClock, random: seededRandom(seed) });
  const [ours, theirs] = [openDiscovery(1), openDiscovery(2)];
  const { settings } = resolveConfig('frontend', ['--hold-timeout=30', ...flags], {});
  const heard = await listen(planner, theirs);
  const opened = openHold(settings, {
    ...SYSTEM,
    registry: new MetricRegistry(),
    logger: silentLogger,
    discovery: ours,
    openEventPlane: () => frontend,
    isLasting: true,
    fleetOf: (model) => FLEETS[model],
  });
  if (opened === undefined) throw new Error('nothing is held');
  const client = new AbortController();
  const beganMs = Date.now();
  const held = models.map((model) => opened.hold.until({ model, find: () => undefined, holder: {} }, client.signal));
  for (const request of held) request.catch(() => {}); // they end with their client
  try {
    await waitUntil(() => heard.length === 2, { what: 'two events' });
  } finally {
    client.abort(new Error('gone'));
    await opened.close();
    await Promise.all([planner.close(), ours.close(), theirs.close()]);
  }
  return { beganMs, events: heard.map(({ payload }) => payload as Readonly<Record<string, unknown>>) };
}

function expectWishes({ beganMs, events }: Awaited<ReturnType<typeof holdAndListen>>): void {
  const [first, second] = events;
  const common = { type: 'request.held', v: 1, namespace: 'prod', held_count: 1 };
  expect(events).toMatchObject([
    { ...common, model: 'a', seq: 0 },
    { ...common, model: 'own-b' },
  ]);
  expect(Number(second?.seq)).toBeGreaterThan(Number(first?.seq));
  expect(first?.source).toMatch(/^[0-9a-f]+$/);
  expect([second?.source, second?.epoch]).toEqual([first?.source, first?.epoch]);
  expect(Number(first?.oldest_at)).toBeGreaterThanOrEqual(beganMs - 1);
}

describe('the note of what a function holds', () => {
  const NOTE = { namespace: 'prod', model: 'own-b' };

  it('is under the name of the workers, with all requests that wait, and goes with the last of them', async () => {
    const { clock, noted, hold, settled } = openNotedHold();
    const atMs = clock.wallMs();
    const clients = [new AbortController(), new AbortController()] as const;
    const held = clients.map(({ signal }) => hold.until({ model: 'b', find: () => undefined, holder: {} }, signal));
    for (const request of held) request.catch(() => {}); // they end with their clients
    await clock.advance(0);
    expect(await noted('prod#own-b')).toEqual([{ ...NOTE, count: 1, oldestAtMs: atMs }]);
    await clock.advance(5000);
    expect(await noted('prod#own-b')).toEqual([{ ...NOTE, count: 2, oldestAtMs: atMs }]);
    clients[0].abort(new Error('gone'));
    await clock.advance(5000);
    expect(await noted('prod#own-b')).toEqual([{ ...NOTE, count: 1, oldestAtMs: atMs }]);
    clients[1].abort(new Error('gone'));
    await settled();
    expect(await noted('prod#own-b')).toEqual([]);
    expect(clock.pendingTimers).toBe(0); // a function may be frozen now
  });

  it('counts requests in the queue of the router as well, and goes with them', async () => {
    const { clock, noted, registry, queued, settled } = openNotedHold();
    let answer = (): void => {};
    const router = queued.watch({
      choose: ({ onQueued }: { onQueued?: (position: number) => void }) => {
        onQueued?.(1);
        return new Promise((resolve) => {
          answer = () => resolve(undefined as never);
        });
      },
    } as never);
    const chosen = router.choose({ pool: { key: 'a', model: 'a' } } as never, new AbortController().signal);
    await clock.advance(5000);
    expect(await noted('prod#a')).toMatchObject([{ namespace: 'prod', model: 'a', count: 1 }]);
    expect(registry.render()).toContain('stator_held_requests{dynamo_namespace="prod",model="a"} 1\n');
    answer();
    await chosen;
    await settled();
    expect(await noted('prod#a')).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('the metric of requests that wait for a worker', () => {
  const shown = (registry: MetricRegistry) =>
    Object.fromEntries(
      [
        ...registry.render().matchAll(/^stator_held_requests\{dynamo_namespace="(\w+)",model="([\w-]+)"\} (\d+)$/gm),
      ].map(([, namespace, model, count]) => [`${namespace}#${model}`, Number(count)]),
    );

  it('is 0 for each known model, and counts under the name that planners use', async () => {
    const { clock, hold, registry } = openNotedHold();
    expect(shown(registry)).toEqual({ 'prod#a': 0, 'prod#own-b': 0 });
    const client = new AbortController();
    const held = ['b', 'b', 'c'].map((model) =>
      hold.until({ model, find: () => undefined, holder: {} }, client.signal),
    );
    for (const request of held) request.catch(() => {}); // they end with their client
    expect(shown(registry)).toEqual({ 'prod#a': 0, 'prod#own-b': 2, 'other#c': 1 });
    client.abort(new Error('gone'));
    await clock.advance(0);
    expect(shown(registry)).toEqual({ 'prod#a': 0, 'prod#own-b': 0, 'other#c': 0 });
  });
});

describe('the wish for a worker', () => {
  it('reaches a planner that follows the namespace, once for the first held request of each model', async () => {
    const plane = createMemoryEventPlane({ clock: systemClock, random: seededRandom(3) });
    expectWishes(await holdAndListen(plane, plane));
  });

  it('asks in the namespace of the frontend for a model that it has not seen', async () => {
    const plane = createMemoryEventPlane({ clock: systemClock, random: seededRandom(3) });
    const { events } = await holdAndListen(plane, plane, ['--namespace=prod'], ['unknown', 'a']);
    expect(events).toMatchObject([{ namespace: 'prod', model: 'unknown' }, { model: 'a' }]);
  });

  it('makes a process look for workers each second whose discovery does not by itself, and only while requests wait', async () => {
    let looks = 0;
    class Asked extends MemoryDiscovery {
      override refresh(): Promise<void> {
        looks++;
        return Promise.reject(new Error('the table is unreachable')); // which ends nothing
      }
    }
    const clock = new VirtualClock();
    const discovery = new Asked({ hub: new MemoryHub(systemClock), clock: systemClock });
    const { settings } = resolveConfig('frontend', ['--hold-timeout=30'], {});
    const parts = {
      ...{ clock, random: seededRandom(4), registry: new MetricRegistry(), logger: silentLogger },
      ...{ discovery, openEventPlane: undefined },
    };
    const opened = openHold(settings, { ...parts, isLasting: false, fleetOf: () => undefined });
    if (opened === undefined) throw new Error('nothing is held');
    const client = new AbortController();
    const held = opened.hold.until({ model: 'm', find: () => undefined, holder: {} }, client.signal);
    await clock.advance(2000);
    expect(looks).toBe(2);
    client.abort(new Error('gone'));
    await expect(held).rejects.toThrow('gone');
    await clock.advance(0);
    expect(clock.pendingTimers).toBe(0); // a function may be frozen now
    expect(looks).toBe(2);
    await opened.close();
    await discovery.close();
  });

  describe.runIf(hasNatsServer())('with a nats-server', () => {
    let server: NatsServer;
    beforeAll(async () => {
      server = await startNatsServer();
    });
    afterAll(() => server?.stop());

    it('reaches it as well', async () => {
      const open = (): EventPlane => {
        const client = new NatsClient({ clock: systemClock, servers: [server.url], retryMs: 20 });
        return createNatsEventPlane({ client, clock: systemClock, onProblem: () => {} });
      };
      expectWishes(await holdAndListen(open(), open()));
    });
  });
});
