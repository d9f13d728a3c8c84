import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import {
  createZmqEventPlane,
  type EventPlane,
  type EventPublisher,
  type EventSubscription,
  type EventTransport,
  followEachTransport,
} from '../../../../shared/planes/index.ts';
import { createMemoryEventPlane } from '../../../support/memory-event-plane.ts';
import { waitUntil } from '../../../support/wait-until.ts';

const SCOPE = { kind: 'endpoint', namespace: 'ns', component: 'backend', endpoint: 'generate' } as const;
const clock = systemClock;
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function closing<Plane extends EventPlane>(plane: Plane): Plane {
  cleanups.push(() => plane.close());
  return plane;
}

function zmqPlane(): EventPlane {
  const onProblem = (problem: unknown): never => {
    throw problem;
  };
  return createZmqEventPlane({ clock, host: '127.0.0.1', onProblem });
}

/** A process whose own plane is in memory. It opens others as `open` says. */
function bed(open: (transport: EventTransport) => EventPlane = zmqPlane) {
  const own = createMemoryEventPlane({ clock });
  const opened: EventTransport[] = [];
  const closed: EventTransport[] = [];
  const problems: unknown[] = [];
  const heard: unknown[] = [];
  const plane = closing(
    followEachTransport({
      own,
      ownKind: 'Memory',
      open: (transport) => {
        const other = open(transport);
        opened.push(transport);
        return {
          ...other,
          async close() {
            await other.close();
            closed.push(transport);
          },
        };
      },
      onProblem: (problem) => problems.push(problem),
    }),
  );
  const listener = { event: ({ payload }: { readonly payload: unknown }) => void heard.push(payload) };
  return { own, plane, opened, closed, problems, heard, subscribe: () => plane.subscribe(SCOPE, 't', listener) };
}

function brokerAt(host: number): EventTransport {
  const endpoints = [`tcp://10.0.0.${host}:5556`];
  return { kind: 'ZmqBroker', config: { xsub_endpoints: endpoints, xpub_endpoints: endpoints } };
}

/** Connects to a publisher, and publishes until a message of it was heard. */
async function joined(subscription: EventSubscription, publisher: EventPublisher, heard: unknown[]): Promise<void> {
  const probe = `joined ${publisher.publisherId}`;
  subscription.connect(publisher.publisherId, publisher.transport);
  await waitUntil(() => {
    publisher.publish(probe);
    return heard.includes(probe);
  });
}

describe('a plane that follows each transport', () => {
  it('hears publishers of its own plane and of another, and opens that one once', async () => {
    const { own, subscribe, opened, heard } = bed();
    const zmq = closing(zmqPlane());
    const [mine, theirs, more] = [
      await own.publisher(SCOPE, 't'),
      await zmq.publisher(SCOPE, 't'),
      await zmq.publisher(SCOPE, 't'),
    ];
    const subscription = await subscribe();
    await joined(subscription, mine, heard);
    await joined(subscription, theirs, heard);
    await joined(subscription, more, heard);
    expect(opened.map(({ kind }) => kind)).toEqual(['Zmq']);
  });

  it('no longer hears a publisher that has left, whichever plane it used', async () => {
    const { own, subscribe, heard } = bed();
    const zmq = closing(zmqPlane());
    const [mine, theirs, last] = [
      await own.publisher(SCOPE, 't'),
      await zmq.publisher(SCOPE, 't'),
      await zmq.publisher(SCOPE, 't'),
    ];
    const subscription = await subscribe();
    for (const each of [mine, theirs, last]) await joined(subscription, each, heard);
    subscription.disconnect(mine.publisherId);
    subscription.disconnect(theirs.publisherId);
    await waitUntil(() => {
      for (const each of [mine, theirs]) each.publish('too late');
      last.publish('last');
      return heard.includes('last');
    });
    mine.publish('too late');
    await subscription.close();
    expect(heard.slice(heard.indexOf('last'))).not.toContain('too late');
  });

  it('follows a publisher whose record now names another transport', async () => {
    const { own, subscribe, heard } = bed();
    const zmq = closing(zmqPlane());
    const theirs = await zmq.publisher(SCOPE, 't');
    const subscription = await subscribe();
    subscription.connect(theirs.publisherId, { kind: 'Memory', config: {} });
    await joined(subscription, theirs, heard);
    const mine = await own.publisher(SCOPE, 't');
    subscription.connect(mine.publisherId, theirs.transport);
    await joined(subscription, mine, heard);
  });

  it('says which plane it cannot open, and tries again for the next publisher', async () => {
    let isReady = false;
    const { subscribe, problems, heard } = bed(() => {
      if (isReady) return zmqPlane();
      throw new Error('no library');
    });
    const zmq = closing(zmqPlane());
    const [first, second] = [await zmq.publisher(SCOPE, 't'), await zmq.publisher(SCOPE, 't')];
    const subscription = await subscribe();
    subscription.connect(first.publisherId, first.transport);
    await waitUntil(() => problems.length > 0);
    expect(String(problems[0])).toContain('event publishers cannot be followed: no library');
    isReady = true;
    await joined(subscription, second, heard);
  });

  it('opens no more planes than a few, however many brokers the records name', async () => {
    const { subscribe, opened, problems } = bed(() => createMemoryEventPlane({ clock }));
    const subscription = await subscribe();
    for (let at = 0; at < 20; at++) {
      subscription.connect(at.toString(16), brokerAt(at));
    }
    await waitUntil(() => problems.length === 12);
    expect(opened).toHaveLength(8);
    expect(String(problems[0])).toContain('more than 8 different brokers');
  });

  it('closes the plane of publishers that have left, so that others can open theirs', async () => {
    const { subscribe, opened, closed, problems } = bed(() => createMemoryEventPlane({ clock }));
    const [one, two] = [await subscribe(), await subscribe()];
    for (let at = 0; at < 20; at++) {
      for (const subscription of [one, two]) subscription.connect(at.toString(16), brokerAt(at));
      await waitUntil(() => opened.length === at + 1);
      one.disconnect(at.toString(16));
      two.disconnect(at.toString(16));
    }
    await waitUntil(() => closed.length === 20);
    expect(problems).toEqual([]);
  });

  it('keeps a plane open while another subscription has a publisher there', async () => {
    const { subscribe, opened, closed, heard } = bed();
    const zmq = closing(zmqPlane());
    const theirs = await zmq.publisher(SCOPE, 't');
    const [one, two] = [await subscribe(), await subscribe()];
    await joined(one, theirs, heard);
    two.connect(theirs.publisherId, theirs.transport);
    one.disconnect(theirs.publisherId);
    await one.close();
    heard.length = 0;
    await joined(two, theirs, heard);
    expect([opened.length, closed.length]).toEqual([1, 0]);
  });

  it('hears a publisher again that has left and comes back, later or at once', async () => {
    const { subscribe, opened, closed, heard } = bed();
    const zmq = closing(zmqPlane());
    const theirs = await zmq.publisher(SCOPE, 't');
    const subscription = await subscribe();
    await joined(subscription, theirs, heard);
    subscription.disconnect(theirs.publisherId);
    await waitUntil(() => closed.length === 1);
    heard.length = 0;
    await joined(subscription, theirs, heard);
    for (let times = 0; times < 5; times++) {
      subscription.disconnect(theirs.publisherId);
      subscription.connect(theirs.publisherId, theirs.transport);
    }
    await waitUntil(() => opened.length - closed.length === 1);
    heard.length = 0;
    await joined(subscription, theirs, heard);
  });
});
