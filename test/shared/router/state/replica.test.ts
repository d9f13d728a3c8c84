import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Random, seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import { createMemoryEventPlane } from '../../../../shared/planes/event/index.ts';
import type { RankWeight } from '../../../../shared/router/scheduler/index.ts';
import {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceEvent,
  CounterReporter,
  decodeActiveSequences,
  encodeActiveSequence,
  LoadFollower,
  MemoryRouterStateHub,
  NO_LOAD,
  ReplicaSync,
  ReservationLedger,
  SharedLoad,
} from '../../../../shared/router/state/index.ts';
import { parseExactJson } from '../../../../shared/standalone/exact-json.ts';

const SCOPE = { kind: 'component', namespace: 'ns', component: 'backend' } as const;
const pool = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
const rank = { workerId: 'a1', dpRank: 0 };
const one: RankWeight = { requests: 1, decodeBlocks: 10, prefillTokens: 100 };

const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((id) => id.toString(16));
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const anyEvent: fc.Arbitrary<ActiveSequenceEvent> = fc.record({
  requestId: fc.string({ maxLength: 40 }),
  workerId: u64,
  dpRank: fc.nat(1000),
  routerId: u64,
  loraName: maybe(fc.string()),
  change: fc.oneof(
    fc.constant({ kind: 'freed' as const }),
    fc.constant({ kind: 'prefill_done' as const }),
    fc.record({
      kind: fc.constant('added' as const),
      sequenceHashes: maybe(fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }), { maxLength: 10 })).map((halves) =>
        halves === undefined ? undefined : Uint32Array.from([...halves, ...halves]),
      ),
      tracksPrefillTokens: fc.boolean(),
      expectedOutputTokens: maybe(fc.nat()),
      prefillTokens: fc.nat(),
      expectedPrefillMs: maybe(fc.nat(1e6)),
    }),
  ),
});

describe('what routers tell each other', () => {
  it('arrives as it was told, over the event plane', async () => {
    const plane = createMemoryEventPlane({ clock: new VirtualClock() });
    const publisher = await plane.publisher(SCOPE, ACTIVE_SEQUENCES_TOPIC);
    let received: unknown;
    const subscription = await plane.subscribe(SCOPE, ACTIVE_SEQUENCES_TOPIC, {
      event: ({ payload }) => {
        received = payload;
      },
    });
    subscription.connect(publisher.publisherId, publisher.transport);
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 5 }), async (events) => {
        publisher.publish(events.map(encodeActiveSequence));
        await new Promise(setImmediate);
        expect(decodeActiveSequences(received, () => expect.unreachable())).toEqual(events);
      }),
    );
    await plane.close();
  });

  it('is understood in Dynamo’s form, with 64-bit numbers in JSON', () => {
    const text = `{"request_id":"r \\"18446744073709551615\\"","worker":{"worker_id":18446744073709551615,"dp_rank":2},
      "data":{"AddRequest":{"token_sequence":[18446744073709551614,7],"expected_output_tokens":64,
      "prefill_load_hint":{"initial_effective_prefill_tokens":320,"expected_prefill_duration":{"secs":1,"nanos":500000000}}}},
      "router_id":9007199254740993,"lora_name":null}`;
    const events = decodeActiveSequences(parseExactJson(text), () => expect.unreachable());
    expect(events).toEqual([
      {
        requestId: 'r "18446744073709551615"',
        workerId: 'ffffffffffffffff',
        dpRank: 2,
        routerId: '20000000000001',
        loraName: undefined,
        change: {
          kind: 'added',
          sequenceHashes: Uint32Array.of(0xfffffffe, 0xffffffff, 7, 0),
          tracksPrefillTokens: true,
          expectedOutputTokens: 64,
          prefillTokens: 320,
          expectedPrefillMs: 1500,
        },
      },
    ]);
  });

  it('is left out and counted when it cannot be read, and the rest is taken', () => {
    const good = encodeActiveSequence({
      requestId: 'r',
      workerId: 'a',
      dpRank: 0,
      routerId: 'b',
      loraName: undefined,
      change: { kind: 'freed' },
    });
    const rounded = { ...(good as object), router_id: 2 ** 53 }; // JSON has rounded it
    const records = [
      null,
      7,
      'Free',
      {},
      rounded,
      { ...(good as object), data: { AddRequest: { token_sequence: 'x' } } },
      good,
    ];
    let malformed = 0;
    expect(decodeActiveSequences(records, () => malformed++)).toHaveLength(1);
    expect(malformed).toBe(6);
  });

  it('never throws for any payload', () => {
    fc.assert(fc.property(fc.anything(), (payload) => void decodeActiveSequences(payload, () => {})));
  });
});

describe('telling', () => {
  const freed = (requestId: string) =>
    ({ requestId, ...rank, loraName: undefined, change: { kind: 'freed' } }) satisfies Omit<
      ActiveSequenceEvent,
      'routerId'
    >;

  it('gathers what happens within a millisecond, up to 256 events', async () => {
    const clock = new VirtualClock();
    const batches: unknown[][] = [];
    const publisher = { publish: (batch: unknown) => void batches.push(batch as unknown[]) };
    const sync = new ReplicaSync({ publisher, routerId: 'a', clock, apply: () => {} });
    for (let at = 0; at < 300; at++) sync.tell(freed(`r${at}`));
    expect(batches.map(({ length }) => length)).toEqual([256]);
    await clock.advance(1);
    expect(batches.map(({ length }) => length)).toEqual([256, 44]);
    sync.tell(freed('last'));
    sync.close();
    sync.tell(freed('too late'));
    expect(batches.map(({ length }) => length)).toEqual([256, 44, 1]);
    expect(clock.pendingTimers).toBe(0);
  });
});

/** A router with a load model of plain sums. */
class Replica {
  readonly own = new Map<string, RankWeight>();
  readonly peers = new Map<string, RankWeight>();
  unattributed: RankWeight = NO_LOAD;
  readonly sync: ReplicaSync;
  readonly ledger: ReservationLedger;
  readonly follower: LoadFollower;
  isDeaf = false;

  constructor(world: World, id: string) {
    const { clock, random, hub } = world;
    this.sync = new ReplicaSync({
      publisher: { publish: (batch) => world.broadcast(batch) },
      routerId: id,
      clock,
      apply: ({ requestId, change }) => {
        if (change.kind === 'added') this.peers.set(requestId, one);
        if (change.kind === 'freed') this.peers.delete(requestId);
      },
    });
    const common = { state: hub.open(), pool, clock, random, onProblem: () => {} };
    this.ledger = new ReservationLedger(common);
    const shared = new SharedLoad({
      knownLoad: () => sum([...this.own.values(), ...this.peers.values()]),
      setUnattributedLoad: (_, amounts) => {
        this.unattributed = amounts;
      },
    });
    this.follower = new LoadFollower({ ...common, onLoads: (rows) => shared.observe(rows) });
    this.follower.start();
  }

  get load(): RankWeight {
    return sum([...this.own.values(), ...this.peers.values(), this.unattributed]);
  }

  add(requestId: string): void {
    this.own.set(requestId, one);
    this.ledger.reserve(rank, one);
    const added = { kind: 'added', sequenceHashes: undefined, tracksPrefillTokens: true } as const;
    const change = { ...added, expectedOutputTokens: undefined, prefillTokens: 100, expectedPrefillMs: undefined };
    this.sync.tell({ requestId, ...rank, loraName: undefined, change });
  }

  free(requestId: string): void {
    this.own.delete(requestId);
    this.sync.tell({ requestId, ...rank, loraName: undefined, change: { kind: 'freed' } });
  }
}

class World {
  readonly clock = new VirtualClock();
  readonly random: Random = seededRandom(4);
  readonly hub = new MemoryRouterStateHub(this.clock);
  readonly replicas: Replica[] = [];
  readonly running = new Set<string>();
  readonly worker: CounterReporter;
  isPlaneAway = false;

  constructor() {
    const { clock, random } = this;
    this.worker = new CounterReporter({
      state: this.hub.open(),
      pool,
      workerId: 'a1',
      clock,
      random,
      read: () => [{ dpRank: 0, active: this.truth(), kvUsedBlocks: 0 }],
      onProblem: () => {},
    });
    this.worker.start();
    for (const id of ['aa', 'bb']) this.replicas.push(new Replica(this, id));
  }

  truth(): RankWeight {
    return sum([...this.running].map(() => one));
  }

  broadcast(batch: unknown): void {
    if (!this.isPlaneAway) for (const replica of this.replicas) replica.sync.receive(batch);
  }

  start(replica: Replica, requestId: string): void {
    replica.add(requestId);
    this.running.add(requestId);
    this.worker.arrived(0, one);
  }

  end(requestId: string): void {
    this.running.delete(requestId);
    for (const replica of this.replicas) if (replica.own.has(requestId)) replica.free(requestId);
  }
}

function sum(amounts: readonly RankWeight[]): RankWeight {
  return amounts.reduce(
    (left, right) => ({
      requests: left.requests + right.requests,
      decodeBlocks: left.decodeBlocks + right.decodeBlocks,
      prefillTokens: left.prefillTokens + right.prefillTokens,
    }),
    NO_LOAD,
  );
}

describe('what other routers booked', () => {
  const added = {
    kind: 'added',
    sequenceHashes: undefined,
    tracksPrefillTokens: true,
    expectedOutputTokens: undefined,
    prefillTokens: 10,
    expectedPrefillMs: undefined,
  } as const;

  function listening(peerRequestsMax?: number) {
    const open = new Set<string>();
    let unremembered = 0;
    const sync = new ReplicaSync({
      publisher: { publish() {} },
      routerId: 'f',
      clock: new VirtualClock(),
      apply: ({ routerId, requestId, workerId, change }) => {
        const booking = `${routerId} ${requestId} at ${workerId}`;
        if (change.kind === 'added') open.add(booking);
        else if (change.kind === 'freed') open.delete(booking);
      },
      onFull: () => unremembered++,
      ...(peerRequestsMax === undefined ? {} : { peerRequestsMax }),
    });
    const hear = (
      routerId: string,
      change: ActiveSequenceEvent['change'],
      { requestId = 'x', workerId = '1' } = {},
    ): void => {
      const event = { requestId, workerId, dpRank: 0, routerId, loraName: undefined, change };
      sync.receive([encodeActiveSequence(event)]);
    };
    return { sync, open, hear, unremembered: () => unremembered };
  }

  it('is freed for every router when the event plane is lost, though two of them booked one id', () => {
    const { sync, open, hear } = listening();
    hear('a', added);
    hear('b', added);
    hear('b', { kind: 'freed' });
    expect([...open]).toEqual(['a x at 1']);
    sync.forgetPeers();
    expect([...open]).toEqual([]);
  });

  it('is freed at both workers of a request whose prompt is computed apart', () => {
    const { sync, open, hear } = listening();
    hear('a', added);
    hear('a', added, { workerId: '2' });
    hear('a', { kind: 'freed' }, { workerId: '2' });
    sync.forgetPeers('a');
    expect([...open]).toEqual([]);
  });

  it('is told when there is more of it than is remembered', () => {
    const { sync, open, hear, unremembered } = listening(2);
    for (const requestId of ['x', 'y', 'z', 'x']) hear('a', added, { requestId });
    expect(unremembered()).toBe(1);
    sync.forgetPeers();
    expect([...open]).toEqual(['a z at 1']);
  });
});

describe('two routers', () => {
  it('agree at once over the event plane, and pass over their own events', async () => {
    const world = new World();
    const [first, second] = world.replicas;
    await world.clock.advance(10);
    for (let at = 0; at < 5; at++) world.start(first!, `f${at}`);
    world.start(second!, 's0');
    await world.clock.advance(1);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
    world.end('f1');
    await world.clock.advance(1);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
  });

  it('agree through the table alone while the event plane is away', async () => {
    const world = new World();
    const [first, second] = world.replicas;
    await world.clock.advance(10);
    world.isPlaneAway = true;
    for (let at = 0; at < 5; at++) world.start(first!, `f${at}`);
    world.start(second!, 's0');
    await world.clock.advance(4000);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
    world.end('f1');
    world.end('s0');
    await world.clock.advance(4000);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
  });

  it('agree again after the event plane went away between a booking and its end, and came back', async () => {
    const world = new World();
    const [first, second] = world.replicas;
    await world.clock.advance(10);
    for (let at = 0; at < 8; at++) world.start(first!, `f${at}`);
    await world.clock.advance(10);
    world.isPlaneAway = true;
    for (let at = 0; at < 4; at++) world.end(`f${at}`); // nobody hears of it
    second!.sync.forgetPeers();
    world.start(second!, 's0');
    await world.clock.advance(4000);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
    world.isPlaneAway = false;
    world.start(first!, 'f9');
    world.end('f5');
    await world.clock.advance(4000);
    expect([first!.load, second!.load]).toEqual([world.truth(), world.truth()]);
  });

  it('see the load that a function left behind when it died', async () => {
    const world = new World();
    const [first, second] = world.replicas;
    await world.clock.advance(10);
    const { clock, random, hub } = world;
    const dead = new ReservationLedger({ state: hub.open(), pool, clock, random, onProblem: () => {} });
    dead.reserve(rank, one);
    await world.clock.advance(2500);
    expect([first!.load, second!.load]).toEqual([one, one]);
    await world.clock.advance(12_000);
    expect([first!.load, second!.load]).toEqual([NO_LOAD, NO_LOAD]);
  });

  it('agree with the truth after any history, once it is quiet', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const world = new World();
        const chance = seededRandom(seed);
        for (let step = 0; step < 120; step++) {
          const replica = world.replicas[chance.below(2)]!;
          const what = chance.below(12);
          if (what < 6) world.start(replica, `r${step}`);
          else if (what < 11) world.end([...world.running][chance.below(Math.max(1, world.running.size))] ?? '');
          else {
            world.isPlaneAway = !world.isPlaneAway;
            if (world.isPlaneAway) for (const each of world.replicas) each.sync.forgetPeers();
          }
          await world.clock.advance(chance.below(400));
        }
        world.isPlaneAway = true;
        for (const each of world.replicas) each.sync.forgetPeers();
        await world.clock.advance(60_000);
        for (const replica of world.replicas) expect(replica.load).toEqual(world.truth());
      }),
      { numRuns: 15 },
    );
  });
});
