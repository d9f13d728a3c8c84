import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeRecord, encodeRecord } from '../../../shared/planes/record-codec.ts';
import { ACTIVE_SEQUENCES_TOPIC, type ActiveSequenceEvent, ReplicaSync } from '../../../shared/router-state/index.ts';
import { decodeActiveSequences, encodeActiveSequence } from '../../../shared/router-state/replica-sync.ts';
import { parseExactJson } from '../../../shared/standalone/body-fields.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const SCOPE = { kind: 'component', namespace: 'ns', component: 'backend' } as const;
const rank = { workerId: 'a1', dpRank: 0 };

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
  it('arrives unchanged over the event plane', async () => {
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
        publisher.publish(events.map((event) => encodeActiveSequence(event)));
        await new Promise(setImmediate);
        expect(decodeActiveSequences(received, () => expect.unreachable())).toEqual(events);
      }),
    );
    await plane.close();
  });

  it('says in Stator’s own form whether a booking may still move, and never in that of Dynamo', () => {
    const tokens = { expectedOutputTokens: undefined, prefillTokens: 7, expectedPrefillMs: undefined };
    const facts = { sequenceHashes: undefined, tracksPrefillTokens: true, ...tokens };
    const change = { kind: 'added', ...facts, isProvisional: true } as const;
    const event = { requestId: 'r', ...rank, routerId: 'b', loraName: undefined, change };
    const read = (form: 'stator' | 'dynamo') =>
      decodeActiveSequences(encodeActiveSequence(event, form), () => expect.unreachable());
    expect(read('stator')).toEqual([event]);
    expect(read('dynamo')).toEqual([{ ...event, change: { kind: 'added', ...facts } }]);
  });

  it('says which requests wait, with what decides their turn', () => {
    const wishes = { expectedOutputTokens: 9, priorityJump: 2.5, strictPriority: undefined };
    const facts = { sequenceHashes: Uint32Array.of(1, 2, 3, 4), uncachedTokens: 20, waitedMs: 3, ...wishes };
    const change = { kind: 'waits', ...facts } as const;
    const event = { requestId: 'r', ...rank, routerId: 'b', loraName: undefined, change };
    const bytes = Buffer.from(encodeRecord(encodeActiveSequence(event)));
    const read = decodeActiveSequences(decodeRecord(bytes, 0, bytes.length), () => expect.unreachable());
    expect(read).toEqual([event]);
  });

  it('reads as it was written in the form of Dynamo, in one list', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 5 }), (events) => {
        const payload = { events: events.map((event) => encodeActiveSequence(event, 'dynamo')) };
        const bytes = Buffer.from(encodeRecord(payload));
        expect(decodeActiveSequences(decodeRecord(bytes, 0, bytes.length), () => expect.unreachable())).toEqual(events);
      }),
    );
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

describe('the open bookings of other routers', () => {
  it('are counted by router, each once, until they are freed or their router is forgotten', () => {
    const publisher = { publish: () => {} };
    const sync = new ReplicaSync({ publisher, routerId: 'ff', clock: new VirtualClock(), apply: () => {} });
    const added = {
      kind: 'added',
      ...{ sequenceHashes: undefined, tracksPrefillTokens: false, expectedOutputTokens: undefined },
      ...{ prefillTokens: undefined, expectedPrefillMs: undefined },
    } as const;
    const hear = (routerId: string, requestId: string, change: ActiveSequenceEvent['change']) =>
      sync.receive([encodeActiveSequence({ requestId, ...rank, routerId, loraName: undefined, change })]);
    for (const id of ['1', '2', '2', '3']) hear('aa', id, added);
    hear('bb', '1', added);
    hear('aa', '3', { kind: 'freed' });
    hear('aa', '4', { kind: 'freed' });
    expect([...sync.peerBookings]).toEqual([
      ['aa', 2],
      ['bb', 1],
    ]);
    sync.forgetPeers('aa');
    expect([...sync.peerBookings]).toEqual([['bb', 1]]);
    hear('bb', '1', { kind: 'freed' });
    expect(sync.peerBookings.size).toBe(0);
  });
});

describe('the places of requests in the queues of other routers', () => {
  it('end with their router, unless the request was booked before', () => {
    const applied: string[] = [];
    const sync = new ReplicaSync({
      publisher: { publish: () => {} },
      routerId: 'ff',
      clock: new VirtualClock(),
      apply: ({ requestId, change }) => void applied.push(`${change.kind} ${requestId}`),
    });
    const hear = (requestId: string, change: ActiveSequenceEvent['change']) =>
      sync.receive([encodeActiveSequence({ requestId, ...rank, routerId: 'aa', loraName: undefined, change })]);
    const wishes = { expectedOutputTokens: undefined, priorityJump: undefined, strictPriority: undefined };
    const sequenceHashes = Uint32Array.of(1, 0);
    for (const id of ['1', '2', '3'])
      hear(id, { kind: 'waits', sequenceHashes, uncachedTokens: 9, waitedMs: 0, ...wishes });
    hear('1', { kind: 'freed' });
    applied.length = 0;
    sync.forgetPeers('bb');
    expect(applied).toEqual([]);
    sync.forgetPeers('aa');
    expect(applied).toEqual(['freed 2', 'freed 3']);
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

  it('measures how long its bookings take to arrive by those that come back to it', async () => {
    const clock = new VirtualClock();
    const published: unknown[] = [];
    const publisher = { publish: (batch: unknown) => void published.push(batch) };
    const sync = new ReplicaSync({ publisher, routerId: 'a', clock, apply: () => expect.unreachable() });
    expect(sync.lagMs).toBe(5);
    const added = { kind: 'added', sequenceHashes: undefined, tracksPrefillTokens: true, prefillTokens: 1 } as const;
    const change = { ...added, expectedOutputTokens: undefined, expectedPrefillMs: undefined };
    for (let at = 0; at < 40; at++) {
      sync.tell({ requestId: `r${at}`, ...rank, loraName: undefined, change });
      await clock.advance(40);
      sync.receive(published.at(-1));
      sync.receive(published.at(-1)); // counts once
    }
    expect(sync.lagMs).toBe(40);
    sync.tell({ requestId: 'slow', ...rank, loraName: undefined, change });
    await clock.advance(2000); // one pause, of a garbage collector for example
    sync.receive(published.at(-1));
    expect(sync.lagMs).toBe(40);
    await clock.advance(60_001); // no traffic
    expect(sync.lagMs).toBe(5);
    sync.close();
  });
});

it('tells routers of Dynamo in their form, from ids that are numbers', () => {
  const clock = new VirtualClock();
  const published: unknown[] = [];
  const publisher = { publish: (payload: unknown) => void published.push(payload) };
  const routerId = 'f6a3c5d1b2e40917';
  const sync = new ReplicaSync({ publisher, routerId, form: 'dynamo', clock, apply: () => {} });
  const sequenceHashes = Uint32Array.of(0xfffffffe, 0xffffffff, 7, 0);
  const change = { kind: 'added', sequenceHashes, tracksPrefillTokens: true, prefillTokens: 70 } as const;
  const unknown = { expectedOutputTokens: undefined, expectedPrefillMs: undefined };
  sync.tell({ requestId: 'r', ...rank, loraName: undefined, change: { ...change, ...unknown } });
  sync.close();
  expect(published).toEqual([
    {
      events: [
        {
          request_id: 'r',
          worker: { worker_id: 0xa1n, dp_rank: 0 },
          data: {
            AddRequest: {
              token_sequence: [0xffff_ffff_ffff_fffen, 7n],
              track_prefill_tokens: true,
              expected_output_tokens: null,
              prefill_load_hint: { initial_effective_prefill_tokens: 70, expected_prefill_duration: null },
            },
          },
          router_id: BigInt(`0x${routerId}`),
          lora_name: null,
        },
      ],
    },
  ]);
});

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

  it('is reported when there are more requests than the bound', () => {
    const { sync, open, hear, unremembered } = listening(2);
    for (const requestId of ['x', 'y', 'z', 'x']) hear('a', added, { requestId });
    expect(unremembered()).toBe(1);
    sync.forgetPeers();
    expect([...open]).toEqual(['a z at 1']);
  });
});
