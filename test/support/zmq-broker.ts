import { XPublisher, XSubscriber } from 'zeromq';
import { freePort } from './free-port.ts';
import { waitUntil } from './wait-until.ts';

/** A broker of the ZMQ event plane: an XSUB and an XPUB socket, back to back. */
export interface ZmqBroker {
  /** Address for publishers. */
  readonly xsub: string;
  /** Address for subscribers. */
  readonly xpub: string;
  /** Holds events back until `resume`. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

const QUEUED_MAX = 100_000;

/**
 * Runs `proof` once for each broker, with the others paused, because publishers and subscribers may reach one before
 * the others.
 */
export async function provingEach(
  brokers: readonly Pick<ZmqBroker, 'pause' | 'resume'>[],
  proof: () => Promise<void>,
): Promise<void> {
  for (const broker of brokers) {
    const others = brokers.filter((each) => each !== broker);
    for (const other of others) other.pause();
    await proof();
    for (const other of others) other.resume();
  }
}

/**
 * Starts a broker on loopback.
 * @param at addresses of an earlier broker. @default free ports
 */
export async function startZmqBroker(at?: Pick<ZmqBroker, 'xsub' | 'xpub'>): Promise<ZmqBroker> {
  // By default ZeroMQ keeps 1,000 messages and drops the rest.
  const front = new XSubscriber({ linger: 0, receiveHighWaterMark: QUEUED_MAX });
  const back = new XPublisher({ linger: 0, sendHighWaterMark: QUEUED_MAX });
  await bind(front, at?.xsub ?? `tcp://127.0.0.1:${await freePort()}`);
  await bind(back, at?.xpub ?? `tcp://127.0.0.1:${await freePort()}`);
  const [xsub, xpub] = [front.lastEndpoint!, back.lastEndpoint!];
  let resume = (): void => {};
  let isOpen = Promise.resolve();
  const relaying = Promise.all([passOn(front, back, () => isOpen), passOn(back, front)]);
  return {
    xsub,
    xpub,
    pause() {
      isOpen = new Promise((resolve) => {
        resume = resolve;
      });
    },
    resume: () => resume(),
    async stop() {
      front.close();
      back.close();
      resume();
      await relaying;
    },
  };
}

/**
 * Passes events one way and subscriptions the other, until the sockets are closed. ZeroMQ's own proxy does not continue
 * after a pause.
 */
async function passOn(
  from: XPublisher | XSubscriber,
  to: XPublisher | XSubscriber,
  isOpen?: () => Promise<void>,
): Promise<void> {
  for await (const frames of from) {
    await isOpen?.();
    if (!to.closed) await to.send(frames);
  }
}

/** Binds `socket`. A closed socket releases its port a little later. */
function bind(socket: XPublisher | XSubscriber, address: string): Promise<true> {
  return waitUntil(async () => {
    await socket.bind(address);
    return true as const;
  });
}
