import { XPublisher, XSubscriber, Proxy as ZmqProxy } from 'zeromq';
import { freePort } from './free-port.ts';
import { waitUntil } from './wait-until.ts';

/** A broker of the ZMQ event plane: an XSUB and an XPUB socket, back to back. */
export interface ZmqBroker {
  /** Where publishers connect. */
  readonly xsub: string;
  /** Where subscribers connect. */
  readonly xpub: string;
  stop(): Promise<void>;
}

const QUEUED_MAX = 100_000;

/** Starts a broker on loopback. @param at where it stood before; @default free ports */
export async function startZmqBroker(at?: Pick<ZmqBroker, 'xsub' | 'xpub'>): Promise<ZmqBroker> {
  // By default ZeroMQ keeps 1,000 messages and drops the rest.
  const front = new XSubscriber({ linger: 0, receiveHighWaterMark: QUEUED_MAX });
  const back = new XPublisher({ linger: 0, sendHighWaterMark: QUEUED_MAX });
  await bind(front, at?.xsub ?? `tcp://127.0.0.1:${await freePort()}`);
  await bind(back, at?.xpub ?? `tcp://127.0.0.1:${await freePort()}`);
  const [xsub, xpub] = [front.lastEndpoint!, back.lastEndpoint!];
  const proxy = new ZmqProxy(front, back);
  const running = proxy.run();
  return {
    xsub,
    xpub,
    async stop() {
      proxy.terminate();
      await running;
      front.close();
      back.close();
    },
  };
}

/** A socket that was closed gives its port back a little later. */
function bind(socket: XPublisher | XSubscriber, address: string): Promise<true> {
  return waitUntil(async () => {
    await socket.bind(address);
    return true as const;
  });
}
