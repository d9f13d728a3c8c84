import { afterEach, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import {
  createZmqEventPlane,
  type EventEnvelope,
  type EventPlane,
  fixedBrokers,
  type ZmqBrokerSource,
  type ZmqBrokers,
} from '../../../../shared/planes/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { provingEach, startZmqBroker, type ZmqBroker } from '../../../support/zmq-broker.ts';

const SCOPE = { kind: 'component', namespace: 'dynamo', component: 'backend' } as const;
/** Scope of Dynamo's processes. */
const DYNAMO_SCOPE = {
  kind: 'endpoint',
  ...{ namespace: 'dynamo', component: 'backend', endpoint: 'generate' },
} as const;
const OTHER_SCOPE = { kind: 'component', namespace: 'dynamo', component: 'prefill' } as const;
const TOPIC = 'kv-events';
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openPlane(brokers: ZmqBrokerSource, problems: unknown[] = []): EventPlane {
  const plane = createZmqEventPlane({ clock: systemClock, brokers, onProblem: (problem) => problems.push(problem) });
  cleanups.push(() => plane.close());
  return plane;
}

async function startBroker(at?: ZmqBroker): Promise<ZmqBroker> {
  const broker = await startZmqBroker(at);
  let isStopped = false;
  const stop = async (): Promise<void> => {
    if (!isStopped) await broker.stop();
    isStopped = true;
  };
  cleanups.push(stop);
  return { ...broker, stop };
}

function addressesOf(...brokers: readonly ZmqBroker[]): ZmqBrokers {
  return { xsub: brokers.map(({ xsub }) => xsub), xpub: brokers.map(({ xpub }) => xpub) };
}

/** Brokers that a test changes. */
class ChangingBrokers implements ZmqBrokerSource {
  #now: ZmqBrokers;
  readonly #listeners = new Set<(brokers: ZmqBrokers) => void>();

  constructor(now: ZmqBrokers) {
    this.#now = now;
  }

  get followers(): number {
    return this.#listeners.size;
  }

  change(now: ZmqBrokers): void {
    this.#now = now;
    for (const listener of this.#listeners) listener(now);
  }

  async follow(_namespace: string, listener: (brokers: ZmqBrokers) => void): Promise<{ close(): void }> {
    this.#listeners.add(listener);
    listener(this.#now);
    return { close: () => this.#listeners.delete(listener) };
  }
}

/** A publisher and a subscriber, each in a plane of its own, and a way to know that an event goes through. */
async function pair(brokers: ZmqBrokerSource) {
  const events: EventEnvelope[] = [];
  const lost = { gaps: 0, missed: 0 };
  const listener = {
    event: (event: EventEnvelope) => events.push(event),
    gap: (_publisherId: string, expected: number, received: number) => {
      lost.gaps++;
      if (expected > 0) lost.missed += received - expected; // from 0 on: it came late
    },
  };
  const subscription = await openPlane(brokers).subscribe(SCOPE, TOPIC, listener);
  const publisher = await openPlane(brokers).publisher(SCOPE, TOPIC);
  subscription.connect(publisher.publisherId, publisher.transport);
  let probes = 0;
  /** Resolves when events go through, and none is on its way. */
  const passes = async (): Promise<void> => {
    const before = events.length;
    await waitUntil(() => {
      if (events.length > before) return true;
      publisher.publish(`probe ${++probes}`);
      return false;
    });
    await waitUntil(() => events.at(-1)?.payload === `probe ${probes}`);
  };
  return { events, lost, publisher, subscription, passes };
}

it('says in its record where the brokers are', async () => {
  const plane = openPlane(fixedBrokers({ xsub: ['tcp://127.0.0.1:1'], xpub: ['tcp://127.0.0.1:2'] }));
  const { transport } = await plane.publisher(SCOPE, TOPIC);
  expect(transport).toEqual({
    kind: 'ZmqBroker',
    config: { xsub_endpoints: ['tcp://127.0.0.1:1'], xpub_endpoints: ['tcp://127.0.0.1:2'] },
  });
});

it('hears every event once although two brokers bring it, and all of them while one is away', async () => {
  const [one, two] = [await startBroker(), await startBroker()];
  const { events, lost, publisher, passes } = await pair(fixedBrokers(addressesOf(one, two)));
  await provingEach([one, two], passes);
  const [firstAt, { missed }] = [events.length, lost];
  for (let at = 0; at < 500; at++) publisher.publish(at);
  await waitUntil(() => events.length >= firstAt + 500);
  await one.stop();
  for (let at = 500; at < 1000; at++) publisher.publish(at);
  await waitUntil(() => events.at(-1)?.payload === 999);
  expect(events.slice(firstAt).map(({ payload }) => payload)).toEqual(Array.from({ length: 1000 }, (_, at) => at));
  expect(lost.missed).toBe(missed);
});

it('connects again to a broker that comes back, and tells of what was lost meanwhile', async () => {
  const broker = await startBroker();
  const { events, lost, publisher, passes } = await pair(fixedBrokers(addressesOf(broker)));
  await passes();
  const before = { ...lost };
  await broker.stop();
  for (let at = 0; at < 3; at++) publisher.publish('meanwhile');
  await startBroker(broker);
  await passes();
  // What waits at the publisher for the broker arrives where the subscriber is back before it; the rest is missed.
  const arrived = events.filter(({ payload }) => payload === 'meanwhile').length;
  const missed = lost.missed - before.missed;
  expect(arrived + missed).toBeGreaterThanOrEqual(3);
  expect(lost.gaps > before.gaps).toBe(missed > 0);
});

it('follows brokers that come and go', async () => {
  const [one, two] = [await startBroker(), await startBroker()];
  const brokers = new ChangingBrokers({ xsub: [], xpub: [] });
  const { publisher, passes, subscription } = await pair(brokers);
  publisher.publish('to nobody');
  brokers.change(addressesOf(one));
  await passes();
  brokers.change(addressesOf(two));
  await one.stop();
  await passes();
  await subscription.close();
  await publisher.close();
  expect(brokers.followers).toBe(0);
});

it('skips an invalid address, and says so', async () => {
  const broker = await startBroker();
  const problems: unknown[] = [];
  const { xsub, xpub } = addressesOf(broker);
  const plane = openPlane(fixedBrokers({ xsub: ['nonsense', ...xsub], xpub: ['nonsense', ...xpub] }), problems);
  const events: EventEnvelope[] = [];
  const subscription = await plane.subscribe(SCOPE, TOPIC, { event: (event) => events.push(event) });
  const publisher = await plane.publisher(SCOPE, TOPIC);
  subscription.connect(publisher.publisherId, publisher.transport);
  await waitUntil(() => {
    publisher.publish('probe');
    return events.length > 0;
  });
  expect(problems).toHaveLength(2);
});

it('lets brokers tell scopes apart: what belongs to another one does not come', async () => {
  const broker = await startBroker();
  const brokers = fixedBrokers(addressesOf(broker));
  const { events, subscription, passes } = await pair(brokers);
  await passes();
  const stranger = await openPlane(brokers).publisher(OTHER_SCOPE, TOPIC);
  const heardElsewhere: EventEnvelope[] = [];
  const witness = await openPlane(brokers).subscribe(OTHER_SCOPE, TOPIC, {
    event: (event) => heardElsewhere.push(event),
  });
  witness.connect(stranger.publisherId, stranger.transport);
  subscription.connect(stranger.publisherId, stranger.transport);
  await waitUntil(() => {
    stranger.publish('elsewhere');
    return heardElsewhere.length > 0;
  });
  await passes();
  expect(events.some(({ payload }) => payload === 'elsewhere')).toBe(false);
});

it('rejects, with nothing left open, when the brokers cannot be found', async () => {
  const fault = new Error('discovery cannot be read');
  const plane = openPlane({ follow: () => Promise.reject(fault) });
  await expect(plane.publisher(SCOPE, TOPIC)).rejects.toBe(fault);
  await expect(plane.subscribe(SCOPE, TOPIC, { event() {} })).rejects.toBe(fault);
});

it('tells once of a broker that cannot be reached, whatever is opened, and again after it came and went', async () => {
  const broker = await startBroker();
  const [address] = addressesOf(broker).xsub;
  await broker.stop();
  const problems: unknown[] = [];
  const plane = openPlane(fixedBrokers({ xsub: [address!], xpub: [] }), problems);
  const says = `no ZMQ broker answers at ${address}: dialled until one does`;
  await plane.publisher(SCOPE, TOPIC);
  await waitUntil(() => problems.length > 0, { what: 'word of the broker' });
  await plane.publisher(OTHER_SCOPE, TOPIC);
  expect(problems).toEqual([says]);
  const next = await startBroker(broker);
  const events: EventEnvelope[] = [];
  const listener = { event: (event: EventEnvelope) => events.push(event), gap: () => {} };
  const subscription = await openPlane(fixedBrokers(addressesOf(next))).subscribe(SCOPE, TOPIC, listener);
  const publisher = await plane.publisher(SCOPE, TOPIC);
  subscription.connect(publisher.publisherId, publisher.transport);
  const arrives = (): boolean => {
    publisher.publish({});
    return events.length > 0;
  };
  await waitUntil(arrives, { what: 'an event through the broker' });
  const told = problems.length;
  await next.stop();
  await waitUntil(() => problems.length > told, { what: 'word of the broker that went' });
  expect(new Set(problems)).toEqual(new Set([says]));
});

it('brings the events of publishers of Dynamo that are in no record, each once from two brokers', async () => {
  const [one, two] = [await startBroker(), await startBroker()];
  const plane = openPlane(fixedBrokers(addressesOf(one, two)));
  const publisher = await plane.publisher(DYNAMO_SCOPE, TOPIC);
  const events: unknown[] = [];
  await plane.subscribe(DYNAMO_SCOPE, TOPIC, { event: ({ payload }) => void events.push(payload) });
  const strangers: unknown[] = [];
  await plane.subscribe(SCOPE, TOPIC, { event: ({ payload }) => void strangers.push(payload) });
  const other = await plane.publisher(SCOPE, TOPIC);
  const joined = async (): Promise<void> => {
    const before = events.length;
    await waitUntil(() => {
      publisher.publish('probe');
      other.publish('probe');
      return events.length > before;
    });
  };
  await provingEach([one, two], joined);
  const before = publisher.dropped;
  for (let at = 0; at < 100; at++) publisher.publish(at);
  await waitUntil(() => events.includes(99));
  expect(events.filter((payload) => typeof payload === 'number')).toEqual(Array.from({ length: 100 }, (_, at) => at));
  expect(publisher.dropped).toBe(before);
  expect(strangers).toEqual([]); // Stator's publishers are in discovery
});
