import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import type { Connections } from './connections.ts';
import type { ResponseSockets } from './sockets/response-sockets.ts';

/** How long a draining server still answers new connections with 503 while responses end, in milliseconds. */
const LINGER_MS = 1000;
/** How long the error events of cut responses have to leave, in milliseconds. */
const LAST_WORDS_MS = 1000;
/**
 * How long a client may take to close its connection, in milliseconds, after the system has the last bytes and sends
 * them. Many clients keep an ended connection in their pool and never look at it.
 */
const LAST_BYTES_MS = 5000;

interface DrainOptions {
  readonly server: Server;
  readonly connections: Connections;
  readonly sockets: ResponseSockets;
  readonly lifecycle: ServiceLifecycle;
  readonly clock: Clock;
  readonly graceMs: number;
}

/**
 * Ends a server. It takes no new requests, responses under way may reach their last byte within the grace period, and
 * the others end with an error event. Resolves with the number of responses that were cut, once every connection is
 * closed: a second after the grace at most.
 */
export async function drainServer(options: DrainOptions): Promise<{ readonly cut: number }> {
  const { server, connections, sockets, lifecycle, clock, graceMs } = options;
  const graceEndMs = clock.nowMs() + graceMs;
  lifecycle.drain();
  const closed = new Promise((resolve) => server.once('close', resolve));
  connections.retire();
  sockets.drain();
  const linger = clock.after(Math.min(LINGER_MS, graceMs), () => stopListening(options));
  await Promise.all([lifecycle.idle(clock, graceMs), connections.idle(graceMs), sockets.gone(graceMs)]);
  linger.cancel();
  stopListening(options);
  const endMs = Math.max(graceEndMs, clock.nowMs() + LAST_WORDS_MS);
  const cut = await cutOff(options);
  await connections.gone(Math.min(Math.max(0, endMs - clock.nowMs()), LAST_BYTES_MS));
  connections.destroy();
  await closed;
  server.close(); // already closed: this ends Node's timer for slow requests
  return { cut };
}

/**
 * Stops listening. The `close` of Node's HTTP servers would also destroy connections whose responses a slow client has
 * not read yet.
 */
function stopListening({ server, connections }: DrainOptions): void {
  if (server.listening) NetServer.prototype.close.call(server);
  connections.closeFresh();
}

/** Cuts the responses that outlast the grace; resolves with their number. */
async function cutOff({ connections, sockets, lifecycle }: DrainOptions): Promise<number> {
  const open = connections.responses;
  const unread = new Set(open.filter(({ writableEnded }) => writableEnded));
  lifecycle.cut(); // sends an error to the clients whose responses are far enough to carry one
  await Promise.all([connections.idle(LAST_WORDS_MS), sockets.gone(LAST_WORDS_MS)]);
  const left = new Set(connections.responses);
  return open.filter((response) => !unread.has(response) || left.has(response)).length;
}
