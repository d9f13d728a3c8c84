import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { TlsOptions, Server as TlsServer } from 'node:tls';
import type { PortRange } from '../../../config/index.ts';
import { formatHostPort, listenAddress, listenForRequests, refuseOpenListener } from '../../listen-address.ts';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import type { ConnectionSettings } from '../frames/settings.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import { type PlaneServerTls, type PlaneTls, securityAt, serverTlsOptions, type TokenEncryption } from './tls.ts';
import { tlsServer } from './tls-server.ts';

// write() returns false at this many bytes that the kernel has not accepted: a few engine steps of a full connection.
const WRITE_BUFFER_BYTES = 256 << 10;

const SOCKET_OPTIONS = { noDelay: true, highWaterMark: WRITE_BUFFER_BYTES };

const CONNECTIONS_MAX = 16_384;

/** An address beyond this machine, to ask whether such addresses are encrypted. */
const ANYWHERE = '0.0.0.0';

/** Time limit of a handshake if the settings of certificates have none. */
const HANDSHAKE_TIMEOUT_MS = 3000;

/** Options of the plane with their defaults. */
export type TcpSettings = ConnectionSettings & {
  readonly host: string;
  readonly advertiseHost: string | undefined;
  readonly ports: PortRange;
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly open: boolean;
};

/** The serving side: one listener for every endpoint of the process, whatever their instance ids. */
export class TcpPlaneServer extends EndpointHost implements PlaneServer {
  readonly #settings: TcpSettings;
  readonly #heartbeat: Heartbeat;
  readonly #advertise: string;
  readonly #server: Server;
  /**
   * TLS server for handshakes on sockets that are passed to it; it does not listen itself. Undefined = nothing is
   * encrypted.
   */
  readonly #securing: TlsServer | undefined;

  private constructor(settings: TcpSettings, options: ServeOptions, advertise: string) {
    super(settings, options.instanceId);
    this.#settings = settings;
    this.#heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#advertise = advertise;
    const security = securityAt(ANYWHERE, settings);
    this.#securing = security && this.#secure(security);
    this.#server = createServer(SOCKET_OPTIONS, (socket) => this.#meet(socket));
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Listens. Rejects if the address cannot be bound, or if other machines reach it and callers need no proof. */
  static async listen(settings: TcpSettings, options: ServeOptions): Promise<TcpPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    refuseOpen(settings, bind);
    const created = new TcpPlaneServer(settings, options, settings.advertiseHost ?? advertise);
    await listenForRequests(created.#server, settings.ports, bind);
    // error of an accept: the listener continues
    created.#server.on('error', () => settings.observer.connectionError());
    return created;
  }

  /** Uses another certificate for new connections. A server without certificates stays without. */
  renew(tls: PlaneServerTls): void {
    if (this.#settings.tls?.server !== undefined) this.#securing?.setSecureContext(serverTlsOptions(tls));
  }

  override handle(endpoint: string, handler: PlaneHandler): Transport {
    super.handle(endpoint, handler);
    return { tcp: `${this.place}/${endpoint}` };
  }

  get place(): string {
    const { port } = this.#server.address() as AddressInfo; // a listening TCP server has an AddressInfo
    return formatHostPort(this.#advertise, port);
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.closeConnections();
    await closed;
  }

  /** Decides by the address that the caller has dialled whether a connection is encrypted. */
  #meet(socket: Socket): void {
    const dialled = this.#settings.advertiseHost ?? socket.localAddress ?? '';
    if (this.#securing === undefined || securityAt(dialled, this.#settings) === undefined) this.#accept(socket);
    else this.#securing.emit('connection', socket);
  }

  #accept(channel: ByteChannel): void {
    this.add(new ServerConnection(channel, this.#settings, this.#heartbeat, this));
  }

  #secure(security: TlsOptions): TlsServer {
    const { observer, tls } = this.#settings;
    const handshakeTimeout = tls?.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS;
    const server = tlsServer({
      tls: { ...SOCKET_OPTIONS, ...security, handshakeTimeout },
      peer: 'caller',
      knowsToken: true,
      observer,
    });
    server.on('secureConnection', (socket) => this.#accept(socket));
    return server;
  }
}

/** Throws one line that says what to set. */
function refuseOpen({ secret, tls, open }: TcpSettings, address: string): void {
  const refusal = refuseOpenListener({
    name: 'the request plane',
    address,
    protectedBy: secret !== undefined ? 'token' : tls?.server?.clientCa !== undefined ? 'mTLS' : undefined,
    open,
    remedies: [
      'set STATOR_PLANE_TOKEN here and in every caller',
      'set DYN_TCP_RPC_HOST=127.0.0.1 for this machine only',
    ],
  });
  if (refusal !== undefined) throw new Error(refusal);
}
