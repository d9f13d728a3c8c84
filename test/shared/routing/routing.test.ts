import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import type { RankLoad } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import type { RoutableModel } from '../../../shared/pipeline/index.ts';
import type { PlaneHandler, RequestPlane } from '../../../shared/planes/index.ts';
import type { RouteRequest } from '../../../shared/router/index.ts';
import type { Routing } from '../../../shared/routing/feeds.ts';
import { openRouterMetrics, openRouting } from '../../../shared/routing/index.ts';
import { Inhibition } from '../../../shared/scheduler/index.ts';
import { createFrontendMetrics, type FrontendMetrics } from '../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { QuoteService } from '../../../shared/worker/calls/quote-service.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const NEVER = new AbortController().signal;
const RESIDENT = ['--router-mode=kv', '--router-role=resident'];
const CHOOSE = ['--router-mode=kv', '--router-role=choose'];

/** What processes of one fleet share: discovery, planes and time. */
class FleetRig {
  readonly clock = new VirtualClock();
  readonly model: RoutableModel;
  readonly #hub = new MemoryHub(this.clock);
  readonly #worker = new MemoryDiscovery({ hub: this.#hub, clock: this.clock, random: seededRandom(99) });
  readonly #plane = createMemoryRequestPlane({ clock: this.clock });
  readonly #events = createMemoryEventPlane({ clock: this.clock, random: seededRandom(1) });
  readonly #open = new Set<RoutingProcess>();
  #seed = 2;

  constructor(served: RoutableModel = model()) {
    this.model = served;
  }

  /** An endpoint of a worker. */
  async serve(path: string, handler: PlaneHandler): Promise<void> {
    (await this.#plane.serve({ instanceId: path.slice(0, path.indexOf('/')) })).handle(path, handler);
  }

  /** A process with these flags that knows the workers. */
  async start(
    flags: readonly string[],
    { followsEvents = true, env = {} }: { followsEvents?: boolean; env?: Record<string, string> } = {},
  ): Promise<RoutingProcess> {
    const { settings } = resolveConfig('frontend', flags, env);
    const { clock } = this;
    const random = seededRandom(this.#seed++);
    const discovery = new MemoryDiscovery({ hub: this.#hub, clock, random });
    const metrics = createFrontendMetrics();
    const common = { clock, random, discovery, metrics, logger: silentLogger };
    const routing = await openRouting(settings, {
      ...common,
      plane: this.#plane,
      inhibition: new Inhibition(clock, 5000),
      openServingPlane: async () => shared(this.#plane),
      openEventPlane: followsEvents ? () => ({ ...this.#events, close: async () => {} }) : undefined,
      routerMetrics: openRouterMetrics(settings, common),
      limitsOf: () => ({}),
    });
    const opened = new RoutingProcess(`${this.#seed}`, routing, this.model, metrics, async () => {
      this.#open.delete(opened);
      await discovery.close();
    });
    this.#open.add(opened);
    routing.follow([this.model]);
    await this.settle();
    return opened;
  }

  /** What the worker with that id says of its only rank. */
  async say(id: string, load: Omit<RankLoad, 'dpRank'>): Promise<void> {
    const address = { namespace: 'ns', component: 'backend', endpoint: 'generate', instance_id: id };
    await this.#worker.put({ type: 'Endpoint', ...address, transport: { memory: id } });
    this.#worker.setLoad(id, { ranks: [{ dpRank: 0, ...load }], isDraining: false });
  }

  /** A router of Dynamo beside the processes, which publishes and hears in its own form. */
  async startDynamoRouter(): Promise<DynamoRouter> {
    const discovery = new MemoryDiscovery({ hub: this.#hub, clock: this.clock, random: seededRandom(this.#seed++) });
    const scope = { kind: 'endpoint', ...DYNAMO_SCOPE } as const;
    const topic = 'active_sequences_events';
    const publisher = await this.#events.publisher(scope, topic);
    const { publisherId: instance_id, transport } = publisher;
    const heard: unknown[] = [];
    const ear = await this.#events.subscribe(scope, topic, { event: ({ payload }) => void heard.push(payload) });
    const query = { bucket: 'v1/event_channels', prefix: '', includesDynamo: true } as const;
    for (const record of await discovery.list(query)) {
      if (record.type === 'EventChannel' && record.topic === topic) ear.connect(record.instance_id, record.transport);
    }
    await discovery.put({ type: 'EventChannel', scope, topic, instance_id, transport, wire: 'dynamo' });
    await this.settle();
    const tell = (requestId: string, data: unknown): void =>
      publisher.publish({
        events: [
          {
            ...{ request_id: requestId, data, router_id: 17_773_891_310_716_884_411n, lora_name: null },
            worker: { worker_id: 0xan, dp_rank: 0 },
          },
        ],
      });
    return { heard, tell, leave: () => discovery.close() };
  }

  /** Lets happen what needs no time, and a moment for messages between processes. */
  async settle(ms = 10): Promise<void> {
    for (let turn = 0; turn < 5; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await this.clock.advance(ms / 5);
    }
  }

  async close(): Promise<void> {
    for (const opened of [...this.#open]) await opened.close();
    await this.#worker.close();
  }
}

/** Scope of workers of Dynamo. */
const DYNAMO_SCOPE = { namespace: 'dynamo', component: 'backend', endpoint: 'generate' };

interface DynamoRouter {
  /** Payloads of the messages of other routers. */
  readonly heard: readonly unknown[];
  tell(requestId: string, data: unknown): void;
  leave(): Promise<void>;
}

/** A plane of the whole rig: who is done with it leaves it to the others. */
function shared(plane: RequestPlane): RequestPlane {
  return { ...plane, close: async () => {} };
}

class RoutingProcess {
  readonly routing: Routing;
  readonly #model: RoutableModel;
  readonly #metrics: FrontendMetrics;
  readonly #closed: () => Promise<void>;
  readonly #name: string;
  #requests = 0;

  constructor(
    name: string,
    routing: Routing,
    served: RoutableModel,
    metrics: FrontendMetrics,
    closed: () => Promise<void>,
  ) {
    this.#name = name;
    this.routing = routing;
    this.#model = served;
    this.#metrics = metrics;
    this.#closed = closed;
  }

  /** Places a request of a prompt that no other shares, by default. */
  choose(more: Partial<RouteRequest> = {}) {
    const { pool } = this.#model;
    const id = `${this.#name}-${++this.#requests}`;
    const tokenIds = Uint32Array.from({ length: 64 }, (_, at) => this.#requests * 1000 + at);
    const request = { id, pool, routing: {}, override: undefined, tokenIds, excluded: new Set<string>(), ...more };
    return this.routing.router.choose(request, NEVER);
  }

  /** A series of its metrics; 0 while it has none. */
  async counted(series: string): Promise<number> {
    const text = await this.#metrics.render();
    const lines = text.split('\n').filter((line) => line.startsWith(series));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  }

  async close(): Promise<void> {
    await this.routing.close();
    await this.#closed();
  }
}

let fleet: FleetRig;
afterEach(() => fleet.close());

describe('openRouting', () => {
  it.each([
    { flags: [], mode: 'round-robin', explains: false },
    { flags: ['--router-mode=least-loaded'], mode: 'least-loaded', explains: false },
    { flags: ['--router-mode=kv'], mode: 'kv', explains: true },
    { flags: ['--router-mode=kv', '--no-router-kv-events'], mode: 'kv', explains: true },
    { flags: CHOOSE, mode: 'kv', explains: true },
    { flags: ['--router-mode=kv', '--router-role=stateless'], mode: 'kv', explains: true },
  ])('opens what $flags name', async ({ flags, mode, explains }) => {
    fleet = new FleetRig();
    const { routing } = await fleet.start(flags);
    expect(routing.router.mode).toBe(mode);
    expect(routing.explanations !== undefined).toBe(explains);
  });

  it('refuses URLs of residents that no plane reaches', async () => {
    fleet = new FleetRig();
    const started = fleet.start(CHOOSE, { env: { STATOR_ROUTER_URL: 'tcp://router' } });
    await expect(started).rejects.toThrow(/STATOR_ROUTER_URL takes tcp:\/\/host:port/);
  });

  it('refuses to show the plane token in clear to a resident elsewhere', async () => {
    fleet = new FleetRig();
    const token = { STATOR_PLANE_TOKEN: 't'.repeat(32) };
    const started = fleet.start(CHOOSE, { env: { ...token, STATOR_ROUTER_URL: 'grpc://10.0.0.9:7000' } });
    await expect(started).rejects.toThrow(
      'STATOR_ROUTER_URL grpc://10.0.0.9:7000 would be shown STATOR_PLANE_TOKEN in clear at 10.0.0.9: ' +
        'set DYN_TCP_TLS_CA_CERT_PATH, or set STATOR_PLANE_TLS=off if no one else can read the network',
    );
  });

  it('takes turns without knowing anything', async () => {
    fleet = new FleetRig();
    const process = await fleet.start([]);
    const taken = [await process.choose(), await process.choose(), await process.choose()];
    expect(new Set(taken.map(({ worker }) => worker.id)).size).toBe(3);
  });

  it('leaves no timer armed when it is closed', async () => {
    fleet = new FleetRig();
    for (const flags of [[], ['--router-mode=kv'], CHOOSE, RESIDENT]) await fleet.start(flags);
    await fleet.close();
    await fleet.settle();
    expect(fleet.clock.pendingTimers).toBe(0);
  });
});

describe('a process without events', () => {
  it('asks the resident, and decides by itself while none answers', async () => {
    fleet = new FleetRig();
    const resident = await fleet.start(RESIDENT);
    const function_ = await fleet.start(CHOOSE, { followsEvents: false });
    await fleet.settle(1000);
    const [first, second, third] = [await function_.choose(), await function_.choose(), await function_.choose()];
    // The resident knows of each before the next.
    expect(new Set([first, second, third].map(({ worker }) => worker.id)).size).toBe(3);
    expect(await resident.counted('stator_router_reservations')).toBe(3);
    first.release();
    await fleet.settle();
    expect(await resident.counted('stator_router_reservations')).toBe(2);

    expect(await function_.counted('stator_router_degraded')).toBe(0);

    await resident.close();
    await fleet.settle();
    expect((await function_.choose()).worker.id).toMatch(/^[abc]$/);
    expect(await function_.counted('stator_router_degraded')).toBe(1);

    const next = await fleet.start(RESIDENT);
    await fleet.settle(20_000);
    await function_.choose();
    expect(await next.counted('stator_router_reservations')).toBe(1);
    expect(await function_.counted('stator_router_degraded')).toBe(0);
  });

  it('sends a conversation to its earlier worker without asking, once it has seen a few', async () => {
    fleet = new FleetRig();
    const function_ = await fleet.start(['--router-mode=kv', '--router-role=stateless'], { followsEvents: false });
    const said = (speaker: number, length: number) => Uint32Array.from({ length }, (_, at) => speaker * 10_000 + at);
    for (let speaker = 1; speaker <= 4; speaker++) await function_.choose({ tokenIds: said(speaker, 256) });
    const chosen = new Set<string>();
    for (let turn = 1; turn <= 6; turn++) {
      chosen.add((await function_.choose({ tokenIds: said(9, 256 * turn) })).worker.id);
      await fleet.settle(2000); // so long that its own load is not in the way
    }
    expect(chosen.size).toBe(1);
  });
});

describe('a function that asks workers', () => {
  const STATELESS = ['--router-mode=kv', '--router-role=stateless'];
  const IDS = ['a1', 'b2', 'c3', 'd4'];
  const askable = (id: string) => ({
    ...worker(id),
    transport: { memory: `${id}/ns/backend/generate` },
    publishesKvEvents: true,
    hasLocalIndexer: true,
  });

  /** A fleet whose workers answer; what each is asked is noted. */
  async function open(more: Partial<ReturnType<typeof askable>> = {}) {
    fleet = new FleetRig(model({ workers: IDS.map((id) => ({ ...askable(id), ...more })) }));
    const cached = new Map<string, number>();
    const asked: string[] = [];
    for (const id of IDS) {
      const service = new QuoteService({
        clock: fleet.clock,
        blockSizeTokens: fleet.model.pool.blockSizeTokens,
        load: () => [
          {
            dpRank: 0,
            runningRequests: 0,
            waitingRequests: 0,
            usedKvBlocks: 0,
            totalKvBlocks: 9,
            activePrefillTokens: 0,
          },
        ],
        cachedTokens: () => [cached.get(id) ?? 0],
        refusal: () => undefined,
      });
      await fleet.serve(`${id}/ns/backend/quote`, (call) => {
        asked.push(id);
        service.serve(call);
      });
    }
    return { cached, asked };
  }

  it('sends a prompt to the worker that has most of it cached, without knowing that before', async () => {
    const { cached, asked } = await open();
    const function_ = await fleet.start(STATELESS, { followsEvents: false });
    const long = { routing: { session_id: 's' }, tokenIds: Uint32Array.from({ length: 4000 }, (_, at) => at) };
    const [first] = await Promise.all([function_.choose(long), fleet.settle()]);
    expect(new Set(asked).size).toBe(4);
    const other = asked.find((id) => id !== first.worker.id) as string;
    cached.set(other, 3900);
    const [second] = await Promise.all([function_.choose(long), fleet.settle()]);
    expect(second).toMatchObject({ worker: { id: other }, cachedTokens: 3900 });
    expect(await function_.counted('stator_router_asked_total{outcome="held"}')).toBe(2);
  });

  it('asks no worker for a short prompt among short ones, and one for a short prompt among long ones', async () => {
    const { asked } = await open();
    const function_ = await fleet.start(STATELESS, { followsEvents: false });
    const choose = (tokens: number) =>
      Promise.all([function_.choose({ tokenIds: new Uint32Array(tokens).fill(tokens) }), fleet.settle(300)]);
    for (let at = 0; at < 4; at++) await choose(999 - at);
    asked.length = 0;
    await choose(800);
    expect(asked).toEqual([]);
    await choose(1000);
    expect(asked).toHaveLength(1);
    await choose(20_000);
    asked.length = 0;
    await choose(64);
    expect(asked).toHaveLength(1);
  });

  it('leaves a conversation with the worker that hashing names while all cost the same', async () => {
    await open();
    const chosen = new Set<string>();
    for (let turn = 0; turn < 8; turn++) {
      const flags = turn % 2 === 0 ? STATELESS : [...STATELESS, '--router-asked-workers=0'];
      const function_ = await fleet.start(flags, { followsEvents: false });
      await Promise.all([function_.choose(), fleet.settle(300)]); // from its second request on a process knows conversations
      const [place] = await Promise.all([function_.choose({ routing: { session_id: 's1' } }), fleet.settle(300)]);
      chosen.add(place.worker.id);
    }
    expect(chosen.size).toBe(1);
  });

  it.each([
    ['a setting excludes', [...STATELESS, '--router-asked-workers=0'], {}],
    ['publish no events', STATELESS, { publishesKvEvents: false }],
    ['keep no index of it', STATELESS, { hasLocalIndexer: false }],
  ])('does not ask workers that %s', async (_, flags, more) => {
    const { asked } = await open(more);
    const function_ = await fleet.start(flags, { followsEvents: false });
    expect((await function_.choose()).worker.id).toMatch(/^[a-e]\d$/);
    expect(asked).toEqual([]);
  });

  it('asks no worker for a pinned request', async () => {
    const { asked } = await open();
    const function_ = await fleet.start(STATELESS, { followsEvents: false });
    expect((await function_.choose({ routing: { backend_instance_id: 'c3' } })).worker.id).toBe('c3');
    expect(asked).toEqual([]);
  });

  it('asks only those that may take the request', async () => {
    const { asked } = await open();
    const function_ = await fleet.start(STATELESS, { followsEvents: false });
    const choosing = function_.choose({ excluded: new Set(['a1', 'b2']), tokenIds: new Uint32Array(4000) });
    await fleet.settle();
    expect((await choosing).worker.id).toMatch(/c3|d4/);
    expect(new Set(asked)).toEqual(new Set(['c3', 'd4']));
  });
});

describe('a router beside one of Dynamo', () => {
  const REPLICA = ['--router-mode=kv', '--router-replica-sync'];
  const BLOCKS = 'dynamo_frontend_worker_active_decode_blocks{';
  const served = () => model({ workers: ['a', 'b'].map((id) => ({ ...worker(id), scope: DYNAMO_SCOPE })) });
  const added = {
    AddRequest: {
      ...{ token_sequence: [2n ** 64n - 1n, 7n, 8n], track_prefill_tokens: true, expected_output_tokens: null },
      prefill_load_hint: { initial_effective_prefill_tokens: 48, expected_prefill_duration: null },
    },
  };

  it('counts what that one has placed, until it ends', async () => {
    fleet = new FleetRig(served());
    const ours = await fleet.start(REPLICA);
    const theirs = await fleet.startDynamoRouter();
    await fleet.settle(1000);
    theirs.tell('r1', added);
    await fleet.settle();
    expect(await ours.counted(BLOCKS)).toBe(3);
    expect((await ours.choose()).worker.id).toBe('b');
    theirs.tell('r1', 'MarkPrefillCompleted');
    theirs.tell('r1', 'Free');
    await fleet.settle();
    expect(await ours.counted(BLOCKS)).toBe(4);
  });

  it('tells that one in its own form what it places', async () => {
    fleet = new FleetRig(served());
    const ours = await fleet.start(REPLICA);
    await fleet.settle(1000);
    const theirs = await fleet.startDynamoRouter();
    const place = await ours.choose();
    await fleet.settle();
    place.release();
    await fleet.settle();
    expect(theirs.heard).toMatchObject([
      { events: [{ worker: { dp_rank: 0 }, data: { AddRequest: { track_prefill_tokens: true } }, lora_name: null }] },
      { events: [{ data: 'Free' }] },
    ]);
  });

  it('forgets what that one had placed once it is gone', async () => {
    fleet = new FleetRig(served());
    const ours = await fleet.start(REPLICA);
    const theirs = await fleet.startDynamoRouter();
    await fleet.settle(1000);
    theirs.tell('r1', added);
    await fleet.settle();
    await theirs.leave();
    await fleet.settle(1000);
    expect(await ours.counted(BLOCKS)).toBe(0);
  });
});

/** A prompt of 250 blocks that shares none with others. */
function ownPrompt(seed: number): Uint32Array {
  return Uint32Array.from({ length: 4000 }, (_, at) => 1_000_000 * (seed + 1) + at);
}

describe('replicas', () => {
  const REPLICA = ['--router-mode=kv', '--router-replica-sync'];

  const BLOCKS = 'dynamo_frontend_worker_active_decode_blocks{';
  const UNATTRIBUTED = 'stator_router_unattributed_requests';

  it('count what the others have placed, until it ends', async () => {
    fleet = new FleetRig();
    const [ours, theirs] = [await fleet.start(REPLICA), await fleet.start(REPLICA)];
    await fleet.settle(1000);
    const taken = [await theirs.choose(), await theirs.choose()];
    await fleet.settle();
    const busy = new Set(taken.map(({ worker }) => worker.id));
    expect(busy.size).toBe(2);
    expect(await ours.counted(BLOCKS)).toBe(8);
    // A prompt of its own: where another request computes the same prompt, a request would find it cached.
    const choosing = ours.choose({ tokenIds: Uint32Array.from({ length: 64 }, (_, at) => 9_000_000 + at) });
    await fleet.settle(50); // it may decide again once it knows what the other decided meanwhile
    expect(busy.has((await choosing).worker.id)).toBe(false);
    expect(await theirs.counted(BLOCKS)).toBe(12);
    for (const place of taken) place.release();
    await fleet.settle();
    expect(await ours.counted(BLOCKS)).toBe(4);
  });

  it('see requests that no router reported in the reports of workers', async () => {
    fleet = new FleetRig();
    const ours = await fleet.start(REPLICA);
    await fleet.settle(1000);
    const say = (requests: number) =>
      fleet.say('a', { requests, decodeBlocks: 10 * requests, prefillTokens: 5000 * requests });
    await say(5);
    await fleet.settle(1000);
    expect(await ours.counted(UNATTRIBUTED)).toBe(5);
    expect(await ours.counted(BLOCKS)).toBe(50);
    const chosen = [await ours.choose(), await ours.choose(), await ours.choose(), await ours.choose()];
    expect(chosen.map(({ worker }) => worker.id)).not.toContain('a');
    await say(0);
    await fleet.settle(1000);
    expect(await ours.counted(UNATTRIBUTED)).toBe(0);
  });

  it('forget what one had placed that is gone, and tell one that comes', async () => {
    fleet = new FleetRig();
    const [ours, theirs] = [await fleet.start(REPLICA), await fleet.start(REPLICA)];
    await fleet.settle(1000);
    await theirs.choose();
    await theirs.choose();
    await fleet.settle();
    expect(await ours.counted(BLOCKS)).toBe(8);
    await theirs.close();
    await fleet.settle(1000);
    expect(await ours.counted(BLOCKS)).toBe(0);
    const third = await fleet.start(REPLICA);
    await fleet.settle(1000);
    const choosing = ours.choose();
    await fleet.settle(50);
    await choosing;
    expect(await third.counted(BLOCKS)).toBe(4);
  });

  it('send requests of one instant to different workers, and count each of them once', async () => {
    fleet = new FleetRig(model({ workers: ['a', 'b', 'c', 'd', 'e', 'f', 'a1', 'a2'].map((id) => worker(id)) }));
    const routers: RoutingProcess[] = [];
    for (let at = 0; at < 8; at++) routers.push(await fleet.start(REPLICA));
    await fleet.settle(1000);
    let held = 0;
    const onHeld = (): undefined => {
      held++;
    };
    const chooseAtOnce = async (round: number) => {
      const choosing = routers.map((router, at) => router.choose({ tokenIds: ownPrompt(8 * round + at), onHeld }));
      for (let step = 0; step < 10; step++) await fleet.settle(5); // messages arrive between the steps of the clock
      return Promise.all(choosing);
    };
    for (const place of await chooseAtOnce(0)) place.release(); // from now on each has heard of others
    await fleet.settle(50);
    const places = await chooseAtOnce(1);
    expect(new Set(places.map(({ worker }) => worker.id)).size).toBe(8);
    expect(held).toBeGreaterThanOrEqual(8);
    for (const router of routers) expect(await router.counted(BLOCKS)).toBe(8 * 250);
    for (const place of places) place.release();
    await fleet.settle(50);
    for (const router of routers) expect(await router.counted(BLOCKS)).toBe(0);
  });
});
