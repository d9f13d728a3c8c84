import { connect } from 'node:net';
import { connect as connectSecurely, type ConnectionOptions as TlsConnectionOptions } from 'node:tls';
import type { PortRange } from '../../../config/index.ts';
import { workerError } from '../../../errors/index.ts';
import { ClientCall } from '../client-call.ts';
import type { ByteChannel, CallTarget } from '../frames/byte-channel.ts';
import { PacedReads } from '../frames/paced-reads.ts';
import { ConnectionPool } from '../frames/pool.ts';
import { type ConnectionOptions, withDefaults } from '../frames/settings.ts';
import type { Call, CallSink, PlaneRequest, PlaneServer, RequestPlane, ServeOptions, Transport } from '../types.ts';
import type { TcpPlaneServer, TcpSettings } from './server.ts';
import { type PlaneTls, securityTo, type TokenEncryption } from './tls.ts';

// Reads are synchronous, and frames that outlive one are copied. So all connections of the process can share one
// buffer.
const readBuffer = Buffer.allocUnsafeSlow(64 << 10);

export interface TcpRequestPlane extends RequestPlane {
  /** Uses other certificates for new connections; existing connections continue. A plane without TLS stays without. */
  renewTls(tls: PlaneTls): void;
}

const ANY_PORT = { first: 0, last: 0 };

/**
 * The TCP request plane. Request, answer, cancel and flow control share connections that the caller opens, so that it
 * works from hosts that cannot be dialled.
 *
 * @example const plane = createTcpRequestPlane({ clock: systemClock }); const server = await plane.serve({ instanceId:
 * '2a' }); const transport = server.handle('2a/dynamo/backend/generate', (call) => engine.generate(call)); const call =
 * plane.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
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
      // a function only calls: its cold start does not parse the server
      const { TcpPlaneServer } = await import('./server.ts');
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
    sibling: ({ tcp = '' }: Transport, endpoint: string): Transport | undefined =>
      TRANSPORT.test(tcp) ? { tcp: tcp.replace(/[^/]+$/, endpoint) } : undefined,
    at: (place: string, endpoint: string): Transport => ({ tcp: `${place}/${endpoint}` }),
    async close() {
      pool.close();
    },
  };
}

/** Opens a socket to `target`, and encrypts it if `security` says how. */
function dialTcp(
  { host, port }: TcpTarget,
  onBytes: (bytes: Buffer) => void,
  security: TlsConnectionOptions | undefined,
): ByteChannel {
  const reads = new PacedReads({ onBytes, onRoom: () => socket.resume() });
  const callback = (count: number): boolean => reads.push(readBuffer.subarray(0, count)); // false = paused
  const options = { host, port, noDelay: true, onread: { buffer: readBuffer, callback } };
  const socket =
    // its types leave out the options that it passes to the socket
    security === undefined ? connect(options) : connectSecurely({ ...options, ...security } as TlsConnectionOptions);
  socket.once('close', () => reads.flush());
  return socket;
}

/** Settings of the TCP plane. */
export interface TcpRequestPlaneOptions extends ConnectionOptions {
  /**
   * Address that a server binds and advertises (`DYN_TCP_RPC_HOST`). `auto` and the wildcard addresses bind every
   * interface and advertise the first address that is not a loopback. @default 'auto'
   */
  readonly host?: string;
  /** Address under which others reach it, if it differs from the bound one (`DYN_TCP_RPC_ADVERTISE_HOST`). */
  readonly advertiseHost?: string | undefined;
  /** Ports of which a server binds the first free one. @default any free one */
  readonly ports?: PortRange;
  /** Certificates, which always encrypt. @default none */
  readonly tls?: PlaneTls;
  /**
   * Connections that the token encrypts if there is no certificate (`STATOR_PLANE_TLS`). @default 'auto', beyond
   * loopback
   */
  readonly encryption?: TokenEncryption;
  /**
   * Whether a server may listen where other machines reach it, although callers need no proof (`STATOR_PLANE_OPEN`).
   * @default false
   */
  readonly open?: boolean;
}

/** A worker's endpoint as its discovery record names it; its connections are those to `host:port/{instance}`. */
interface TcpTarget extends CallTarget {
  readonly host: string;
  readonly port: number;
}

const TRANSPORT = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/]+)):(?<port>\d{1,5})\/(?<endpoint>(?<instance>[^/]+)(?:\/.*)?)$/;

const targets = new WeakMap<Transport, TcpTarget>(); // every call asks, about few records

/** Reads `{ tcp: "host:port/{instance}/{ns}/{component}/{endpoint}" }`. Throws `CannotConnect` for anything else. */
export function targetOf(transport: Transport): TcpTarget {
  const known = targets.get(transport);
  if (known !== undefined) return known;
  const target = readTarget(transport);
  targets.set(transport, target);
  return target;
}

function readTarget(transport: Transport): TcpTarget {
  const text = transport.tcp ?? JSON.stringify(transport);
  const parts = TRANSPORT.exec(text)?.groups;
  const port = Number(parts?.port);
  if (parts?.endpoint === undefined || parts.instance === undefined || port === 0 || port > 65_535) {
    throw workerError('CannotConnect', `not a TCP transport: ${text}`);
  }
  const host = parts.v6 ?? parts.host ?? '';
  return {
    host,
    port,
    instanceId: parts.instance,
    endpoint: parts.endpoint,
    poolKey: `${host}:${port}/${parts.instance}`,
  };
}
