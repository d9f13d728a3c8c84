import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import type { Connections } from './connections.ts';
import type { ResponseSockets } from './sockets/response-sockets.ts';

/** How long a draining server still says 503 to new connections while responses end. */
const LINGER_MS = 1000;
/** What is left of responses that were cut, their error event, has this long to leave. */
const LAST_WORDS_MS = 1000;
/**
 * The system has the last bytes of a response, and sends them; how long its client may take to say that it has them all, by
 * closing the connection too. Many clients keep an ended connection in their pool and never look.
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
 * Ends a server: no new requests, responses under way to their last byte within the grace, an error event for those that are
 * not over by then. Resolves with the responses that were cut, once every connection is closed: a second after the grace at most.
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
  server.close(); // closed as it is: takes Node's timer for slow requests away
  return { cut };
}

/** Node's HTTP servers would also destroy the connections whose responses a slow client has not read yet. */
function stopListening({ server, connections }: DrainOptions): void {
  if (server.listening) NetServer.prototype.close.call(server);
  connections.closeFresh();
}

/** Cuts what the grace was too short for; resolves with how many responses that were. */
async function cutOff({ connections, sockets, lifecycle }: DrainOptions): Promise<number> {
  const open = connections.responses;
  const unread = new Set(open.filter(({ writableEnded }) => writableEnded));
  lifecycle.cut(); // tells those that are far enough to be told anything
  await Promise.all([connections.idle(LAST_WORDS_MS), sockets.gone(LAST_WORDS_MS)]);
  const left = new Set(connections.responses);
  return open.filter((response) => !unread.has(response) || left.has(response)).length;
}
