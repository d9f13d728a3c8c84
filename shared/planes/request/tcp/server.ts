import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions, type Server as TlsServer } from 'node:tls';
import { formatHostPort, listenAddress, listenInRange, refuseOpenListener } from '../../listen-address.ts';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import type { TcpSettings } from './plane.ts';
import {
  type EncryptionSettings,
  explainHandshake,
  handshakeTimeoutOf,
  keyServerOptions,
  type PlaneServerTls,
  securityAt,
  serverTlsOptions,
} from './tls.ts';

/** Who hears of a listener's connections. */
interface ListenerEvents {
  /** A connection that can be used, secured where it must be. */
  accepted(channel: ByteChannel): void;
  /** A handshake failed; the listener goes on. */
  failed(): void;
  /** A handshake failed in a way that will not pass: `reason` says what to set. */
  refused(address: string, reason: string): void;
}

/** A listener that does not listen yet. */
interface PlaneListener {
  readonly server: Server;
  /** Shows another certificate from the next connection on; one without certificates stays so. */
  renew(tls: PlaneServerTls): void;
}

// write() says "enough" at this many bytes not yet taken by the kernel, a few engine steps of a full connection.
const WRITE_BUFFER_BYTES = 256 << 10;

const SOCKET_OPTIONS = { noDelay: true, highWaterMark: WRITE_BUFFER_BYTES };

const CONNECTIONS_MAX = 16_384;

/** The serving side: one listener for every endpoint of the process, whatever their instance ids. */
export class TcpPlaneServer extends EndpointHost implements PlaneServer {
  readonly #listener: PlaneListener;
  readonly #server: Server;
  readonly #advertise: string;

  private constructor(settings: TcpSettings, options: ServeOptions, advertise: string) {
    super(settings, options.instanceId);
    const { observer } = settings;
    const heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#advertise = advertise;
    this.#listener = createListener(settings, {
      accepted: (channel) => this.add(new ServerConnection(channel, settings, heartbeat, this)),
      failed: () => observer.connectionError(),
      refused: (address, reason) => observer.peerRefused?.(address, reason),
    });
    this.#server = this.#listener.server;
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Listens. Rejects when the address cannot be bound, or when others reach it and their callers prove nothing. */
  static async listen(settings: TcpSettings, options: ServeOptions): Promise<TcpPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    const advertised = settings.advertiseHost ?? advertise;
    refuseOpen(settings, bind);
    const created = new TcpPlaneServer(settings, options, advertised);
    await listenInRange(created.#server, settings.ports, bind);
    created.#server.on('error', () => settings.observer.connectionError()); // of an accept: the listener goes on
    return created;
  }

  /** Shows another certificate from the next connection on. */
  renew(tls: PlaneServerTls): void {
    this.#listener.renew(tls);
  }

  override handle(endpoint: string, handler: PlaneHandler): Transport {
    super.handle(endpoint, handler);
    const { port } = this.#server.address() as AddressInfo; // a listening TCP server has an AddressInfo
    return { tcp: `${formatHostPort(this.#advertise, port)}/${endpoint}` };
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.closeConnections();
    await closed;
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
      'set DYN_TCP_RPC_HOST=127.0.0.1 for this machine alone',
    ],
  });
  if (refusal !== undefined) throw new Error(refusal);
}

/** Accepts connections; each is encrypted, or not, by the address that its caller has dialled. */
function createListener(settings: TcpSettings, events: ListenerEvents): PlaneListener {
  const { tls, secret, advertiseHost } = settings;
  const securing =
    tls?.server !== undefined
      ? secured(serverTlsOptions(tls.server), settings, events)
      : secret !== undefined && settings.encryption !== 'off'
        ? secured(keyServerOptions(secret.tlsKey), settings, events)
        : undefined;
  const server = createServer(SOCKET_OPTIONS, (socket: Socket) => {
    const isPlain = securityAt(advertiseHost ?? socket.localAddress ?? '', settings) === undefined;
    if (isPlain || securing === undefined) events.accepted(socket);
    else securing.emit('connection', socket);
  });
  return {
    server,
    renew: (renewed) => {
      if (tls?.server !== undefined) securing?.setSecureContext(serverTlsOptions(renewed));
    },
  };
}

/** Handshakes on sockets that are handed to it; it listens nowhere itself. */
function secured(options: TlsOptions, settings: EncryptionSettings, events: ListenerEvents): TlsServer {
  const handshakeTimeout = handshakeTimeoutOf(settings.tls);
  const server = createTlsServer({ ...SOCKET_OPTIONS, ...options, handshakeTimeout });
  server.on('secureConnection', (socket) => events.accepted(socket));
  server.on('tlsClientError', (error, socket) => {
    events.failed();
    const reason = explainHandshake(error, 'caller');
    if (reason !== undefined) events.refused(socket.remoteAddress ?? 'a caller', reason);
    socket.destroy();
  });
  return server;
}
