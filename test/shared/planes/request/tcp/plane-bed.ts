import { afterEach } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import type { PlaneHandler, PlaneServer, RequestPlane, Transport } from '../../../../../shared/planes/index.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from '../../../../../shared/planes/request/tcp/plane.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';

/** The endpoint that the planes of a suite serve. */
export const ENDPOINT = '2a/dynamo/backend/generate';

/** Returns functions that open planes on loopback. What they open ends after each test. */
export function usePlanes() {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  const openPlane = (options: Partial<TcpRequestPlaneOptions> = {}): RequestPlane => {
    const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1', ...options });
    cleanups.push(() => plane.close());
    return plane;
  };
  const serve = async (
    handler: PlaneHandler,
    options: Partial<TcpRequestPlaneOptions> = {},
  ): Promise<{ server: PlaneServer; transport: Transport }> => {
    const server = await openPlane(options).serve({ instanceId: '2a' });
    cleanups.push(() => server.close());
    return { server, transport: server.handle(ENDPOINT, handler) };
  };
  return { cleanups, openPlane, serve };
}

/** Calls the endpoint at `transport`. Returns what receives its answer. */
export function send(plane: RequestPlane, transport: Transport, body: unknown = {}): RecordingSink {
  const sink = new RecordingSink();
  plane.call(transport, { id: 'r', headers: {}, body }, sink);
  return sink;
}
