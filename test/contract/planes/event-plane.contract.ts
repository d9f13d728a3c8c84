import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type {
  EventEnvelope,
  EventPlane,
  EventPublisher,
  EventScope,
  EventSubscription,
} from '../../../shared/planes/index.ts';
import { waitUntil } from '../../support/index.ts';

/** Two processes of one deployment. */
export interface EventPlaneHarness {
  readonly sender: EventPlane;
  readonly receiver: EventPlane;
  /** Where there are several ways between the two: runs `proof` once for each, with that one alone open. */
  readonly provingEachWay?: (proof: () => Promise<void>) => Promise<void>;
  close(): Promise<void>;
}

const SCOPE: EventScope = { kind: 'component', namespace: 'dynamo', component: 'backend' };
const TOPIC = 'kv-events';
const PROBE = 'probe ';

interface Gap {
  readonly publisherId: string;
  readonly expected: number;
  readonly received: number;
}

/** A subscriber that keeps what it hears; the probes that a test publishes while it joins are left out. */
class Hearing {
  readonly events: EventEnvelope[] = [];
  readonly gaps: Gap[] = [];
  /** Number of the last probe heard. */
  lastProbe = 0;

  event(envelope: EventEnvelope): void {
    const { payload } = envelope;
    if (typeof payload === 'string' && payload.startsWith(PROBE)) this.lastProbe = Number(payload.slice(PROBE.length));
    else this.events.push(envelope);
  }

  gap(publisherId: string, expected: number, received: number): void {
    this.gaps.push({ publisherId, expected, received });
  }

  /** Events lost between two that were heard. What a late subscriber did not hear begins at 0. */
  get missed(): number {
    return this.gaps.reduce((sum, { expected, received }) => sum + (expected === 0 ? 0 : received - expected), 0);
  }

  get payloads(): unknown[] {
    return this.events.map((event) => event.payload);
  }
}

/** Tests what every `EventPlane` does. */
export function describeEventPlane(name: string, start: () => Promise<EventPlaneHarness>): void {
  describe(`event plane: ${name}`, () => {
    let harness: EventPlaneHarness;
    beforeEach(async () => {
      harness = await start();
    });
    afterEach(async () => {
      await harness.close();
    });

    async function listen(topic = TOPIC): Promise<{ hearing: Hearing; subscription: EventSubscription }> {
      const hearing = new Hearing();
      return { hearing, subscription: await harness.receiver.subscribe(SCOPE, topic, hearing) };
    }

    let probes = 0;

    /**
     * Connects and publishes probes until one arrives, for transports whose joining takes time. Afterwards no probe is
     * under way.
     */
    async function join(publisher: EventPublisher, subscription: EventSubscription, hearing: Hearing): Promise<void> {
      const first = probes + 1;
      subscription.connect(publisher.publisherId, publisher.transport);
      await waitUntil(() => {
        if (hearing.lastProbe >= first) return true;
        publisher.publish(`${PROBE}${++probes}`);
        return false;
      });
      await waitUntil(() => hearing.lastProbe === probes);
    }

    async function joined(): Promise<{
      hearing: Hearing;
      subscription: EventSubscription;
      publisher: EventPublisher;
    }> {
      const { hearing, subscription } = await listen();
      const publisher = await harness.sender.publisher(SCOPE, TOPIC);
      await join(publisher, subscription, hearing);
      return { hearing, subscription, publisher };
    }

    it('delivers payloads in order, as they were published, with growing sequence numbers', async () => {
      const { hearing, publisher } = await joined();
      const payloads = [
        { event_id: 1, block_hashes: [0xffff_ffff_ffff_fffen, 2n ** 63n], parent: null, worker_id: '694d98147d54be25' },
        [[1, [2, -3.5]], 'ä'],
        7,
        null,
      ];
      const beforeMs = Date.now();
      for (const payload of payloads) publisher.publish(payload);
      await waitUntil(() => hearing.events.length === payloads.length);
      expect(hearing.payloads).toEqual(payloads);
      const [first] = hearing.events;
      expect(first).toMatchObject({ topic: TOPIC, publisherId: publisher.publisherId });
      expect(first!.publishedAtMs).toBeGreaterThanOrEqual(beforeMs - 1);
      expect(hearing.events.map((event) => event.sequence - first!.sequence)).toEqual([0, 1, 2, 3]);
      expect(publisher.dropped).toBe(0);
    });

    it('delivers a long event in its place', async () => {
      const { hearing, publisher } = await joined();
      const long = Array.from({ length: 40_000 }, (_, at) => ({ at, hash: at * 1e9 }));
      const payloads = ['before', long, 'behind', [long.slice(0, 10_000)], 'last'];
      for (const payload of payloads) publisher.publish(payload);
      await waitUntil(() => hearing.events.length === payloads.length);
      expect(hearing.payloads).toEqual(payloads);
      expect(hearing.missed).toBe(0);
    });

    it('hands on large numbers of events without loss', async () => {
      const { hearing, subscription, publisher } = await joined();
      // A way that opens in the middle would bring what is new before what is old on the others.
      await harness.provingEachWay?.(() => join(publisher, subscription, hearing));
      const { missed } = hearing;
      for (let at = 0; at < 5000; at++) publisher.publish(at);
      await waitUntil(() => hearing.events.length === 5000);
      expect(hearing.payloads).toEqual(Array.from({ length: 5000 }, (_, at) => at));
      expect(hearing.missed).toBe(missed);
    });

    it('follows several publishers, each with its own sequence', async () => {
      const { hearing, subscription, publisher: one } = await joined();
      const two = await harness.sender.publisher(SCOPE, TOPIC);
      expect(two.publisherId).not.toBe(one.publisherId);
      await join(two, subscription, hearing);
      one.publish('from one');
      two.publish('from two');
      await waitUntil(() => hearing.events.length === 2);
      expect(new Map(hearing.events.map((event) => [event.publisherId, event.payload]))).toEqual(
        new Map([
          [one.publisherId, 'from one'],
          [two.publisherId, 'from two'],
        ]),
      );
    });

    it('reaches every subscriber of the topic', async () => {
      const { hearing, publisher } = await joined();
      const other = await listen();
      await join(publisher, other.subscription, other.hearing);
      publisher.publish('to all');
      await waitUntil(() => hearing.events.length === 1 && other.hearing.events.length === 1);
    });

    it('keeps topics apart, also when one begins like the other', async () => {
      const { hearing, subscription } = await listen('kv');
      const long = await harness.sender.publisher(SCOPE, TOPIC);
      const short = await harness.sender.publisher(SCOPE, 'kv');
      const witness = await listen();
      subscription.connect(long.publisherId, long.transport);
      await join(long, witness.subscription, witness.hearing);
      await join(short, subscription, hearing);
      long.publish('for the long topic');
      await waitUntil(() => witness.hearing.events.length === 1);
      short.publish('for the short topic');
      await waitUntil(() => hearing.events.length === 1);
      expect(hearing.payloads).toEqual(['for the short topic']);
    });

    it('tells a late subscriber that it needs a dump, but counts nothing as missed', async () => {
      const { publisher, hearing: witness } = await joined();
      for (let at = 0; at < 5; at++) publisher.publish('early');
      await waitUntil(() => witness.events.length === 5);
      const { hearing, subscription } = await listen();
      await join(publisher, subscription, hearing);
      expect(hearing.gaps).toHaveLength(1);
      expect(hearing.gaps[0]).toMatchObject({ publisherId: publisher.publisherId, expected: 0 });
      expect(hearing.gaps[0]!.received).toBeGreaterThanOrEqual(5);
      expect(hearing.payloads).toEqual([]);
      expect(hearing.missed).toBe(0);
    });

    it('connects once however often it is asked to', async () => {
      const { hearing, subscription, publisher } = await joined();
      subscription.connect(publisher.publisherId, publisher.transport);
      subscription.connect(publisher.publisherId, publisher.transport);
      publisher.publish('once');
      publisher.publish('last');
      await waitUntil(() => hearing.payloads.includes('last'));
      expect(hearing.payloads).toEqual(['once', 'last']);
    });

    it('hears nothing of a publisher it was disconnected from, and hears it again as a new one', async () => {
      const { hearing, subscription, publisher } = await joined();
      const other = await harness.sender.publisher(SCOPE, TOPIC);
      await join(other, subscription, hearing);
      subscription.disconnect(publisher.publisherId);
      subscription.disconnect('unknown');
      const gapsBefore = hearing.gaps.length;
      publisher.publish('unheard');
      other.publish('heard');
      await waitUntil(() => hearing.events.length === 1);
      expect(hearing.payloads).toEqual(['heard']);
      await join(publisher, subscription, hearing);
      expect(hearing.gaps.slice(gapsBefore)).toMatchObject([{ publisherId: publisher.publisherId, expected: 0 }]);
    });

    it('counts a payload that cannot be encoded as dropped, and subscribers see the gap', async () => {
      const { hearing, publisher } = await joined();
      publisher.publish('before');
      await waitUntil(() => hearing.events.length === 1);
      const endless: Record<string, unknown> = {};
      endless.self = endless;
      expect(() => publisher.publish(endless)).not.toThrow();
      publisher.publish('after');
      await waitUntil(() => hearing.events.length === 2);
      expect(publisher.dropped).toBe(1);
      expect(hearing.missed).toBe(1);
      const [before, after] = hearing.events;
      expect(hearing.gaps.at(-1)).toEqual({
        publisherId: publisher.publisherId,
        expected: before!.sequence + 1,
        received: after!.sequence,
      });
    });

    it('is silent after closing, on either side', async () => {
      const { hearing, subscription, publisher } = await joined();
      const witness = await listen();
      await join(publisher, witness.subscription, witness.hearing);
      await subscription.close();
      await subscription.close();
      subscription.connect(publisher.publisherId, publisher.transport);
      publisher.publish('unheard');
      await waitUntil(() => witness.hearing.events.length === 1);
      await publisher.close();
      await publisher.close();
      expect(() => publisher.publish('nothing')).not.toThrow();
      expect(hearing.events).toEqual([]);
    });
  });
}
