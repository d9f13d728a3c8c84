import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { formatHostPort, listenAddress } from '../../listen-address.ts';
import type { RecordCodec } from '../../record-codec.ts';
import type { EventListener, EventPlane, EventPublisher, EventSubscription } from '../types.ts';
import { ZmqPublisher } from './publisher.ts';
import { ZmqSubscription } from './subscription.ts';

/** Settings of the ZeroMQ event plane (configuration.md, section 12). */
export interface ZmqEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /**
   * Address that publishers bind and advertise (`DYN_EVENT_PLANE_HOST`); `auto` binds every interface and advertises the
   * first address that is not a loopback. @default 'auto'
   */
  readonly host?: string;
  /** `DYN_EVENT_PLANE_CODEC`; readers understand both. @default 'msgpack' */
  readonly codec?: RecordCodec;
  /** Told of messages that cannot be read and of listeners that throw. */
  readonly onProblem: (problem: unknown) => void;
}

/** Messages that wait for one peer before more are lost, each way. */
const HIGH_WATER_MARK = 100_000;

/**
 * The event plane over ZeroMQ without a broker (runtime-and-workers.md, section 3.4): a publisher binds a PUB socket on a
 * free port and is found through discovery; a subscriber connects to each it is told of. At most once; a slow joiner loses
 * the first events and sees the gap.
 */
export function createZmqEventPlane(options: ZmqEventPlaneOptions): EventPlane {
  const { clock, random = systemRandom, host = 'auto', codec = 'msgpack', onProblem } = options;
  const open = new Set<{ close(): Promise<void> }>();

  async function createPublisher(topic: string): Promise<EventPublisher> {
    const { Publisher } = await loadZeromq();
    const { bind, advertise } = listenAddress(host);
    const socket = new Publisher({
      sendHighWaterMark: HIGH_WATER_MARK,
      sendTimeout: 0,
      linger: 0,
      ipv6: bind.includes(':'),
    });
    await socket.bind(`tcp://${formatHostPort(bind, 0)}`);
    const port = Number(socket.lastEndpoint?.split(':').at(-1));
    const publisher = new ZmqPublisher({
      socket,
      endpoint: `tcp://${formatHostPort(advertise, port)}`,
      topic,
      publisherId: random.instanceId(),
      codec,
      clock,
      onClosed: () => open.delete(publisher),
    });
    open.add(publisher);
    return publisher;
  }

  async function subscribe(topic: string, listener: EventListener): Promise<EventSubscription> {
    const { Subscriber } = await loadZeromq();
    const socket = new Subscriber({ receiveHighWaterMark: HIGH_WATER_MARK, linger: 0 });
    const subscription = new ZmqSubscription({
      socket,
      topic,
      listener,
      onProblem,
      onClosed: () => open.delete(subscription),
    });
    open.add(subscription);
    return subscription;
  }

  return {
    name: 'zmq',
    // The scope is not in the messages: discovery tells which publishers belong to it.
    publisher: (_scope, topic) => createPublisher(topic),
    subscribe: (_scope, topic, listener) => subscribe(topic, listener),
    async close() {
      await Promise.all([...open].map((each) => each.close()));
    },
  };
}

/** Loads the native library on first use: a process without this plane does not pay for it. */
function loadZeromq(): Promise<typeof import('zeromq')> {
  return import('zeromq');
}
