import { connect } from 'node:net';
import { ClientCall } from '../client-call.ts';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { ConnectionPool } from '../frames/pool.ts';
import { withDefaults } from '../frames/settings.ts';
import type { Call, CallSink, PlaneRequest, PlaneServer, RequestPlane, ServeOptions, Transport } from '../types.ts';
import { type TcpTarget, targetOf } from './address.ts';
import { type Security, securityTo } from './encryption.ts';
import type { TcpPlaneServer } from './server.ts';
import type { TcpRequestPlaneOptions, TcpSettings } from './settings.ts';
import { connectSecurely, type PlaneClientTls, type PlaneTls } from './tls.ts';

// Reads are synchronous and frames that outlive one are copied, so every connection of the process can share one buffer.
const readBuffer = Buffer.allocUnsafeSlow(64 << 10);

export interface TcpRequestPlane extends RequestPlane {
  /** New connections use these certificates; those that stand go on. What is plain stays plain. */
  renewTls(tls: PlaneTls): void;
}

const ANY_PORT = { first: 0, last: 0 };

/**
 * The TCP request plane: request, answer, cancel and flow control share connections
 * that the caller opens, so it works from hosts that cannot be dialled.
 *
 * @example
 * const plane = createTcpRequestPlane({ clock: systemClock });
 * const server = await plane.serve({ instanceId: '2a' });
 * const transport = server.handle('2a/dynamo/backend/generate', (call) => engine.generate(call));
 * const call = plane.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
 */
export function createTcpRequestPlane(options: TcpRequestPlaneOptions): TcpRequestPlane {
  const { host = 'auto', ports = ANY_PORT, advertiseHost, encryption = 'auto', open = false } = options;
  const own = { host, ports, advertiseHost, tls: options.tls, encryption, open };
  const settings: TcpSettings = { ...withDefaults(options), ...own };
  const { clock, observer } = settings;
  let tls = settings.tls;
  const pool = new ConnectionPool(settings, (target: TcpTarget, onBytes) =>
    dialTcp(target, onBytes, securityTo(target.host, { ...settings, tls })),
  );
  const servers: TcpPlaneServer[] = [];
  return {
    name: 'tcp',
    async serve(serveOptions: ServeOptions): Promise<PlaneServer> {
      const { TcpPlaneServer } = await import('./server.ts'); // a function only calls: its cold start parses none of it
      const server = await TcpPlaneServer.listen({ ...settings, tls }, serveOptions);
      servers.push(server);
      return server;
    },
    renewTls(renewed: PlaneTls): void {
      tls = renewed;
      if (renewed.server !== undefined) for (const server of servers) server.renew(renewed.server);
    },
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => pool.open({ call, target: targetOf(transport), request }));
      return call;
    },
    async close() {
      pool.close();
    },
  };
}

/** Opens a socket to `target`, secured where `security` says how. */
function dialTcp(
  { host, port }: TcpTarget,
  onBytes: (bytes: Buffer) => void,
  security?: Security<PlaneClientTls>,
): ByteChannel {
  const callback = (count: number): boolean => {
    onBytes(readBuffer.subarray(0, count));
    return true;
  };
  const options = { host, port, noDelay: true, onread: { buffer: readBuffer, callback } };
  return security === undefined ? connect(options) : connectSecurely(options, security);
}
