import { afterEach, expect, it } from 'vitest';
import { Publisher, type Subscriber } from 'zeromq';
import { systemClock } from '../../../../shared/clock/index.ts';
import { EVENT_BYTES_MAX, encodeEnvelope, u64Bytes } from '../../../../shared/planes/event/envelope.ts';
import { DirectZmqSubscription, ZmqSubscription } from '../../../../shared/planes/event/zmq/subscription.ts';
import { createZmqEventPlane, type EventEnvelope, type EventPlane } from '../../../../shared/planes/index.ts';
import { waitUntil } from '../../../support/index.ts';

const SCOPE = { kind: 'namespace', namespace: 'dynamo' } as const;
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openPlane(onProblem: (problem: unknown) => void): EventPlane {
  const plane = createZmqEventPlane({ clock: systemClock, host: '127.0.0.1', onProblem });
  cleanups.push(() => plane.close());
  return plane;
}

it('reads on after malformed messages, and after a listener that threw', async () => {
  const socket = new Publisher({ linger: 0 });
  cleanups.push(() => socket.close());
  await socket.bind('tcp://127.0.0.1:*');
  const problems: unknown[] = [];
  const events: EventEnvelope[] = [];
  const subscription = await openPlane((problem) => problems.push(problem)).subscribe(SCOPE, 't', {
    event: (event) => {
      events.push(event);
      if (event.payload === 'throw') throw new Error('defect of the listener');
    },
  });
  subscription.connect('a', { kind: 'Zmq', config: { endpoint: socket.lastEndpoint! } });
  let sequence = 0;
  const publish = async (payload: unknown): Promise<void> => {
    const event = { topic: 't', publisherId: 'a', sequence: sequence++, publishedAtMs: 0, payload };
    const frames = encodeEnvelope(event);
    await socket.send(['t', frames.publisherId, frames.sequence, frames.body]);
  };
  await waitUntil(async () => {
    await publish('probe');
    return events.length > 0;
  });
  await socket.send(['t']);
  await socket.send(['t', 'short', u64Bytes(0n), Buffer.of(1)]);
  await socket.send(['t', u64Bytes(10n), u64Bytes(0n), Buffer.from([1, 0, 0, 0, 1, 0xc1])]);
  await publish('throw');
  await publish('good');
  await waitUntil(() => events.at(-1)?.payload === 'good');
  expect(problems).toHaveLength(4);
});

it('ignores a publisher of another kind of plane', async () => {
  const reader = await openPlane(() => {}).subscribe(SCOPE, 't', { event: () => {} });
  expect(() => reader.connect('a', { kind: 'Memory', config: {} })).not.toThrow();
  reader.disconnect('a');
});

it('continues without a publisher whose address is invalid, or whose messages have no end', async () => {
  const socket = new Publisher({ linger: 0 });
  cleanups.push(() => socket.close());
  await socket.bind('tcp://127.0.0.1:*');
  const problems: unknown[] = [];
  const heard: unknown[] = [];
  const plane = openPlane((problem) => problems.push(problem));
  const subscription = await plane.subscribe(SCOPE, 't', { event: (event) => heard.push(event.payload) });
  for (const endpoint of ['', 'x']) {
    subscription.connect('b', { kind: 'Zmq', config: { endpoint } });
  }
  expect(problems).toHaveLength(2);
  const publisher = await plane.publisher(SCOPE, 't');
  subscription.connect('c', { kind: 'Zmq', config: { endpoint: socket.lastEndpoint! } });
  subscription.connect(publisher.publisherId, publisher.transport);
  const frames = encodeEnvelope({
    topic: 't',
    publisherId: 'c',
    sequence: 0,
    publishedAtMs: 0,
    payload: 'c',
  });
  const huge = Buffer.alloc(EVENT_BYTES_MAX + 1);
  await waitUntil(async () => {
    await socket.send(['t', frames.publisherId, frames.sequence, huge]);
    publisher.publish('good');
    return heard.length > 2;
  });
  expect(problems).toHaveLength(2); // the long ones were never taken
});

it('uses IPv6 for publishers that have only such an address', () => {
  const reached: unknown[] = [];
  const socket = {
    ...{ ipv6: false, subscribe() {}, close() {}, receive: () => new Promise(() => {}) },
    connect: (endpoint: string) => void reached.push([endpoint, socket.ipv6]),
  };
  const subscription = new DirectZmqSubscription({
    ...{ kind: 'Zmq', key: 't', topic: 't' },
    socket: socket as unknown as Subscriber,
    ...{ listener: { event() {} }, onProblem: () => expect.unreachable(), onClosed() {} },
  });
  subscription.connect('a', { kind: 'Zmq', config: { endpoint: 'tcp://10.0.0.7:1' } });
  subscription.connect('b', { kind: 'Zmq', config: { endpoint: 'tcp://[fd00::7]:1' } });
  expect(reached).toEqual([
    ['tcp://10.0.0.7:1', false],
    ['tcp://[fd00::7]:1', true],
  ]);
});

it('follows a bounded number of publishers that it only hears, and forgets the one that was silent for longest', () => {
  const events: EventEnvelope[] = [];
  const subscription = new ZmqSubscription({
    ...{ kind: 'ZmqBroker', key: 't', topic: 't', followsAll: true },
    socket: { subscribe() {}, close() {}, receive: () => new Promise(() => {}) } as unknown as Subscriber,
    listener: { event: (event) => void events.push(event) },
    onProblem: () => expect.unreachable(),
    onClosed() {},
  });
  const hear = (publisher: number): number => {
    const before = events.length;
    const publisherId = publisher.toString(16);
    subscription.receive({ topic: 't', publisherId, sequence: 0, publishedAtMs: 0, payload: null });
    return events.length - before;
  };
  for (let publisher = 0; publisher < 4096; publisher++) expect(hear(publisher)).toBe(1);
  expect(hear(0)).toBe(0); // a duplicate, but no longer silent
  expect(hear(4096)).toBe(1);
  expect([hear(0), hear(4096)]).toEqual([0, 0]);
  expect(hear(1)).toBe(1); // forgotten, so that the duplicate counts as new
});
