import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectSecurely, type Server as TlsServer } from 'node:tls';
import { formatHostPort, listenAddress, listenForRequests, refuseOpenListener } from '../../listen-address.ts';
import { Unproven } from '../frames/unproven.ts';
import { clientTlsOptions, type PlaneTls, serverTlsOptions } from '../tcp/tls.ts';
import { tlsServer } from '../tcp/tls-server.ts';
import type { PlaneHandler, PlaneServer, Transport } from '../types.ts';
import type { AnswerLine } from './answer-line.ts';
import { ServingConnection, type ServingHost } from './serving-connection.ts';
import type { ServingSettings } from './serving-settings.ts';

const CONNECTIONS_MAX = 16_384;
/** Streams of one process, above what any engine takes at once. */
const STREAMS_MAX = 65_536;
/** Time limit of a TLS handshake if the settings of certificates have none. */
const HANDSHAKE_TIMEOUT_MS = 3000;
/** Silence after which the system probes whether the machine of the caller is still there. */
const KEEP_ALIVE_MS = 15_000;
const SOCKET_OPTIONS = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };

/**
 * The serving side of Dynamo's request plane, for workers of Stator behind frontends of Dynamo: one listener for every
 * endpoint of the process. Answers go out on connections that the worker opens.
 *
 * @example
 * const server = await DynamoPlaneServer.listen(settings);
 * server.handle('2a/dynamo/backend/generate', (call) => engine.generate(call));
 * // { dynamo_tcp: '10.0.0.5:8800/2a/dynamo/backend/generate', dynamo_codec: 'msgpack' }
 */
export class DynamoPlaneServer implements PlaneServer, ServingHost {
  readonly #advertise: string;
  readonly #server: Server;
  readonly #securing: TlsServer | undefined;
  #tls: PlaneTls | undefined;
  /** Sockets of callers, also of those whose handshake is not over. */
  readonly #sockets = new Set<Socket>();
  readonly #handlers = new Map<string, PlaneHandler>();
  readonly #connections = new Set<ServingConnection>();
  /** Connections that have not brought a request yet. */
  readonly #unproven: Unproven<ServingConnection>;
  readonly #lines = new Set<AnswerLine>();
  #isDraining = false;

  private constructor(settings: ServingSettings, advertise: string) {
    this.#advertise = advertise;
    const accept = (socket: Socket): void => {
      const connection = new ServingConnection(socket, settings, this);
      this.#connections.add(connection);
      this.#unproven.add(connection);
    };
    this.#unproven = new Unproven((connection) => {
      settings.observer.connectionError();
      connection.destroy();
    });
    this.#tls = settings.tls;
    const { server: certificates, handshakeTimeoutMs: handshakeTimeout = HANDSHAKE_TIMEOUT_MS } = settings.tls ?? {};
    const secure = certificates && { ...SOCKET_OPTIONS, ...serverTlsOptions(certificates), handshakeTimeout };
    this.#securing =
      secure && tlsServer({ tls: secure, peer: 'caller', knowsToken: false, observer: settings.observer });
    this.#securing?.on('secureConnection', accept);
    this.#server = this.#securing ?? createServer(SOCKET_OPTIONS, accept);
    this.#server.maxConnections = CONNECTIONS_MAX;
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /** Listens. Rejects if the address cannot be bound, or if other machines reach it and callers need no proof. */
  static async listen(settings: ServingSettings): Promise<DynamoPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    refuseOpen(settings, bind);
    const created = new DynamoPlaneServer(settings, settings.advertiseHost ?? advertise);
    await listenForRequests(created.#server, settings.ports, bind);
    // error of an accept: the listener continues
    created.#server.on('error', () => settings.observer.connectionError());
    return created;
  }

  /** Uses other certificates for new connections. A server without a certificate stays without. */
  renew(tls: PlaneTls): void {
    this.#tls = tls;
    if (tls.server !== undefined) this.#securing?.setSecureContext(serverTlsOptions(tls.server));
  }

  get place(): string {
    return formatHostPort(this.#advertise, (this.#server.address() as AddressInfo).port); // of a listening TCP server
  }

  get activeStreams(): number {
    return this.#lines.size;
  }

  handle(endpoint: string, handler: PlaneHandler): Transport {
    this.#handlers.set(endpoint, handler);
    return { dynamo_tcp: `${this.place}/${endpoint}`, dynamo_codec: 'msgpack' };
  }

  reachable(_signal: AbortSignal): Promise<void> {
    return Promise.resolve();
  }

  unhandle(endpoint: string): void {
    this.#handlers.delete(endpoint);
  }

  drain(): void {
    this.#isDraining = true;
  }

  handlerOf(path: string): PlaneHandler | string {
    if (this.#isDraining) return 'draining';
    if (this.#lines.size >= STREAMS_MAX) return `${STREAMS_MAX} requests are under way`;
    return this.#handlers.get(path) ?? `unknown endpoint ${path.slice(0, 256)}`;
  }

  dial(host: string, port: number, onOpen: () => void): Socket {
    const target = { host, port, ...SOCKET_OPTIONS };
    const client = this.#tls?.client;
    if (client === undefined) return connect(target, onOpen);
    return connectSecurely({ ...target, ...clientTlsOptions(client) }, onOpen);
  }

  begun(line: AnswerLine): void {
    this.#lines.add(line);
  }

  over(line: AnswerLine): void {
    this.#lines.delete(line);
  }

  proven(connection: ServingConnection): void {
    this.#unproven.delete(connection);
  }

  closed(connection: ServingConnection): void {
    this.#unproven.delete(connection);
    this.#connections.delete(connection);
  }

  async close(): Promise<void> {
    this.#isDraining = true;
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const connection of this.#connections) connection.destroy();
    for (const socket of this.#sockets) socket.destroy();
    for (const line of [...this.#lines]) line.destroy();
    await closed;
  }
}

/** Throws one line that says what to set. */
function refuseOpen({ tls, open }: ServingSettings, address: string): void {
  const refusal = refuseOpenListener({
    name: "the listener for Dynamo's frontends",
    address,
    protectedBy: tls?.server?.clientCa === undefined ? undefined : 'mTLS',
    open,
    remedies: [
      'set DYN_TCP_RPC_HOST=127.0.0.1 for this machine only',
      'set DYN_TCP_TLS_CERT_PATH, DYN_TCP_TLS_KEY_PATH and DYN_TCP_TLS_CLIENT_CA_CERT_PATH here and at the frontends',
    ],
  });
  if (refusal !== undefined) throw new Error(refusal);
}
