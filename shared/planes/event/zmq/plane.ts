import type { Publisher, Subscriber } from 'zeromq';
import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { loadCode } from '../../../errors/index.ts';
import { formatHostPort, listenAddress } from '../../listen-address.ts';
import { EVENT_BYTES_MAX, encodeEnvelope, SequencedPublisher } from '../envelope.ts';
import {
  type EventListener,
  type EventPlane,
  type EventPublisher,
  type EventScope,
  type EventSubscription,
  type EventTransport,
  subjectOf,
} from '../types.ts';
import { BROKER_CONNECTION, connectToBrokers, type ZmqBrokerSource } from './brokers.ts';
import { DirectZmqSubscription, ZmqSubscription } from './subscription.ts';

/** Settings of the ZeroMQ event plane. */
export interface ZmqEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /**
   * Address that publishers bind and advertise (`DYN_EVENT_PLANE_HOST`). `auto` binds every interface and advertises
   * the first address that is not a loopback. Not used with brokers. @default 'auto'
   */
  readonly host?: string;
  /** Address under which others reach it, if it differs from the bound one (`DYN_TCP_RPC_ADVERTISE_HOST`). */
  readonly advertiseHost?: string | undefined;
  /**
   * Why publishers must not bind `host`, in one line that says what to set: ZeroMQ does not ask who subscribes.
   * @default they may
   */
  readonly refusal?: string | undefined;
  /** Proxies between publishers and subscribers. @default none: subscribers connect to publishers */
  readonly brokers?: ZmqBrokerSource;
  /**
   * Called for messages that cannot be read, for listeners that throw, and once per outage of each broker that cannot
   * be reached.
   */
  readonly onProblem: (problem: unknown) => void;
}

/** Messages that may wait for one peer, in each direction; further ones are lost. */
const HIGH_WATER_MARK = 100_000;
const RECEIVING = { receiveHighWaterMark: HIGH_WATER_MARK, linger: 0, maxMessageSize: EVENT_BYTES_MAX } as const;

/**
 * The event plane over ZeroMQ. It delivers at most once; a slow joiner loses the first events and sees the gap.
 *
 *     without brokers   PUB (bound) <── SUB          discovery finds publishers; connections: P x S
 *     with brokers      PUB ──> XSUB│XPUB <── SUB    all connect to every broker; connections per broker: P + S
 *
 * With several brokers a message comes once from each, and the first one counts: while one broker is left, nothing is
 * lost.
 */
export function createZmqEventPlane(options: ZmqEventPlaneOptions): EventPlane {
  const { clock, random = systemRandom, host = 'auto', brokers, refusal, onProblem } = options;
  const open = new Set<{ close(): Promise<void> }>();
  const absent = new Set<string>(); // brokers

  function watchBrokers(socket: Publisher | Subscriber): void {
    socket.events.on('connect', ({ address }) => absent.delete(address));
    socket.events.on('connect:retry', ({ address }) => {
      if (socket.closed || absent.has(address)) return;
      absent.add(address);
      onProblem(`no ZMQ broker answers at ${address}: dialled until one does`);
    });
  }

  /** @param key first frame of the messages, by which subscribers and brokers tell them apart */
  function publisherOf(
    { topic, transport, key }: { readonly topic: string; readonly transport: EventTransport; readonly key: string },
    socket: Publisher,
    onClosed: () => void,
  ): EventPublisher {
    const publisher = new SequencedPublisher({
      topic,
      publisherId: random.instanceId(),
      transport,
      clock,
      // With a send timeout of 0 the socket accepts or refuses a message at once.
      send(event) {
        const frames = encodeEnvelope(event);
        return socket.send([key, frames.publisherId, frames.sequence, frames.body]);
      },
      onClosed() {
        socket.close();
        open.delete(publisher);
        onClosed();
      },
    });
    open.add(publisher);
    return publisher;
  }

  async function bindPublisher(topic: string): Promise<EventPublisher> {
    if (refusal !== undefined) throw new Error(refusal);
    const { bind, advertise } = listenAddress(host);
    const reachedAt = options.advertiseHost ?? advertise;
    const socket = await openPublisher({ ipv6: bind.includes(':') });
    await socket.bind(`tcp://${formatHostPort(bind, 0)}`);
    const port = Number(socket.lastEndpoint?.split(':').at(-1));
    const endpoint = `tcp://${formatHostPort(reachedAt, port)}`;
    return publisherOf({ topic, transport: { kind: 'Zmq', config: { endpoint } }, key: topic }, socket, () => {});
  }

  async function connectPublisher(source: ZmqBrokerSource, scope: EventScope, topic: string): Promise<EventPublisher> {
    const socket = await openPublisher(BROKER_CONNECTION);
    watchBrokers(socket);
    const connections = await connectToBrokers(socket, 'xsub', source, scope.namespace, onProblem);
    const config = { xsub_endpoints: connections.first.xsub, xpub_endpoints: connections.first.xpub };
    const key = subjectOf(scope, topic);
    return publisherOf({ topic, transport: { kind: 'ZmqBroker', config }, key }, socket, () => connections.close());
  }

  async function subscribe(scope: EventScope, topic: string, listener: EventListener): Promise<EventSubscription> {
    const { Subscriber } = await loadZeromq();
    const common = { topic, listener, onProblem };
    if (brokers === undefined) {
      const subscription: EventSubscription = new DirectZmqSubscription({
        ...{ ...common, kind: 'Zmq', key: topic, socket: new Subscriber(RECEIVING) },
        onClosed: () => open.delete(subscription),
      });
      open.add(subscription);
      return subscription;
    }
    const socket = new Subscriber({ ...RECEIVING, ...BROKER_CONNECTION });
    watchBrokers(socket);
    const connections = await connectToBrokers(socket, 'xpub', brokers, scope.namespace, onProblem);
    const subscription: EventSubscription = new ZmqSubscription({
      ...{ ...common, kind: 'ZmqBroker', key: subjectOf(scope, topic), socket },
      followsAll: scope.kind === 'endpoint', // Dynamo's processes behind brokers write no channel into discovery
      onClosed() {
        open.delete(subscription);
        connections.close();
      },
    });
    open.add(subscription);
    return subscription;
  }

  return {
    name: 'zmq',
    // Without brokers the scope is not in the messages: discovery says which publishers belong to it.
    publisher: (scope, topic) =>
      brokers === undefined ? bindPublisher(topic) : connectPublisher(brokers, scope, topic),
    subscribe,
    async close() {
      await Promise.all([...open].map((each) => each.close()));
    },
  };
}

async function openPublisher(more: { readonly ipv6?: boolean } | typeof BROKER_CONNECTION): Promise<Publisher> {
  const { Publisher } = await loadZeromq();
  return new Publisher({ sendHighWaterMark: HIGH_WATER_MARK, sendTimeout: 0, linger: 0, ...more });
}

/** Loads the native library on first use, so that a process without this plane does not pay for it. */
function loadZeromq(): Promise<typeof import('zeromq')> {
  return loadCode('ZeroMQ', () => import('zeromq'));
}
