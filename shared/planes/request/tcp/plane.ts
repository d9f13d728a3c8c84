import { ClientCall } from '../client-call.ts';
import type { Call, CallSink, PlaneRequest, PlaneServer, RequestPlane, ServeOptions, Transport } from '../types.ts';
import { readTarget } from './address.ts';
import { dialTcp } from './dial.ts';
import { ConnectionPool } from './pool.ts';
import { TcpPlaneServer } from './server.ts';
import { type TcpRequestPlaneOptions, withDefaults } from './settings.ts';

/**
 * The TCP request plane (runtime-and-workers.md, section 2.6): request, answer, cancel and flow control share connections
 * that the caller opens, so it works from hosts that cannot be dialled.
 *
 * @example
 * const plane = createTcpRequestPlane({ clock: systemClock });
 * const server = await plane.serve({ instanceId: '2a' });
 * const transport = server.handle('2a/dynamo/backend/generate', (call) => engine.generate(call));
 * const call = plane.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
 */
export function createTcpRequestPlane(options: TcpRequestPlaneOptions): RequestPlane {
  const settings = withDefaults(options);
  const { clock, observer } = settings;
  const pool = new ConnectionPool(settings, dialTcp);
  return {
    name: 'tcp',
    serve: (serveOptions: ServeOptions): Promise<PlaneServer> => TcpPlaneServer.listen(settings, serveOptions),
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => pool.open({ call, target: readTarget(transport), request }));
      return call;
    },
    async close() {
      pool.close();
    },
  };
}
