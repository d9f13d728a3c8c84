import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Random, seededRandom } from '../../../shared/clock/index.ts';

/** An HTTP relay that passes every request on and may keep the answer to itself. */
export interface LosingProxy {
  readonly url: string;
  /** Share of answers that are lost from now on. */
  lose(share: number): void;
  /** Refuses this share of requests as a table does that has no capacity left. */
  throttle(share: number): void;
  close(): Promise<void>;
}

/** Starts a relay to `target` on 127.0.0.1. */
export async function startLosingProxy(target: string, random: Random = seededRandom(1)): Promise<LosingProxy> {
  let lostShare = 0;
  let throttledShare = 0;
  const server = createServer((incoming, outgoing) => {
    if (random.next() < throttledShare) {
      incoming.resume();
      const body = {
        __type: 'com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException',
        message: 'slow down',
      };
      outgoing.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
      return;
    }
    const isLost = random.next() < lostShare;
    const { method, headers, url } = incoming;
    const upstream = request(new URL(url ?? '/', target), { method, headers }, (answer) => {
      if (isLost) {
        answer.resume();
        answer.on('end', () => incoming.socket.destroy());
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    upstream.on('error', () => incoming.socket.destroy());
    incoming.pipe(upstream);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a listening TCP server has an AddressInfo
    lose: (share) => {
      lostShare = share;
    },
    throttle: (share) => {
      throttledShare = share;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
