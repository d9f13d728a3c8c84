import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { Clock } from '../../../clock/index.ts';
import { reasonOf, type ServeError } from '../../../errors/index.ts';
import { formatHostPort, listenInRange } from '../../listen-address.ts';
import { Unproven } from '../frames/unproven.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import { type PlaneServerTls, serverTlsOptions } from '../tcp/tls.ts';
import { tlsServer } from '../tcp/tls-server.ts';
import { HomeConnection, type HomeOwner, type HomeStream } from './home-connection.ts';
import { addressOf, type CallHomeSettings } from './home-settings.ts';

const CONNECTIONS_MAX = 16_384;
const SOCKET_OPTIONS = { noDelay: true, allowHalfOpen: true };

/**
 * The listener that Dynamo's workers dial to deliver answers, one connection for each. A connection is worth nothing
 * without a subject that this process has just made up and told only to the worker of the request.
 */
export class CallHome implements HomeOwner {
  /** Address for workers, `host:port`. */
  readonly address: string;
  readonly #server: Server;
  readonly #securing: TlsServer | undefined;
  /** Streams that no worker has dialled for yet. Bounded by the requests under way. */
  readonly #expected = new Map<string, HomeStream>();
  readonly #connections = new Set<HomeConnection>();
  /** Connections that have not named their stream yet. */
  readonly #unproven = new Unproven<HomeConnection>((connection) => connection.destroy());

  private constructor(server: Server, securing: TlsServer | undefined, address: string) {
    this.#server = server;
    this.#securing = securing;
    this.address = address;
  }

  /** Listens. Rejects with one line that says what to set if the address cannot be bound. */
  static async listen(settings: CallHomeSettings, clock: Clock, observer: RequestPlaneObserver): Promise<CallHome> {
    const { bind, advertise } = addressOf(settings.host);
    const server = createServer({ ...SOCKET_OPTIONS, pauseOnConnect: settings.tls === undefined }); // see `readShared`
    server.maxConnections = CONNECTIONS_MAX;
    const { port } = settings;
    await listenInRange(server, { first: port, last: port }, bind).catch((cause: unknown) => {
      const where = formatHostPort(bind, port);
      const reason = `the listener for answers of Dynamo's workers cannot listen on ${where} (${reasonOf(cause)})`;
      throw new Error(`${reason}: set DYN_TCP_RESPONSE_STREAM_HOST or DYN_TCP_RESPONSE_STREAM_PORT`, { cause });
    });
    server.unref();
    server.on('error', () => observer.connectionError()); // error of an accept: the listener continues
    const address = formatHostPort(advertise, (server.address() as AddressInfo).port); // of a listening TCP server
    const { tls, handshakeTimeoutMs: handshakeTimeout } = settings;
    const secure = tls && { ...SOCKET_OPTIONS, ...serverTlsOptions(tls), handshakeTimeout };
    const securing = secure && tlsServer({ tls: secure, peer: 'worker', knowsToken: false, observer });
    const home = new CallHome(server, securing, address);
    const accept = (socket: Socket): void => {
      home.#add(
        new HomeConnection(socket, { clock, observer, messageBytesMax: settings.messageBytesMax, owner: home }),
      );
    };
    if (securing === undefined) server.on('connection', accept);
    else {
      server.on('connection', (socket) => securing.emit('connection', socket));
      securing.on('secureConnection', accept);
    }
    return home;
  }

  /** Expects a worker to dial for `stream`. @param subject unguessable name of the stream */
  expect(subject: string, stream: HomeStream): void {
    this.#expected.set(subject, stream);
  }

  /** Refuses a worker that dials for `subject` from now on. */
  forget(subject: string): void {
    this.#expected.delete(subject);
  }

  claim(subject: string): HomeStream | undefined {
    const stream = this.#expected.get(subject);
    this.#expected.delete(subject);
    return stream;
  }

  greeted(connection: HomeConnection): void {
    this.#unproven.delete(connection);
  }

  gone(connection: HomeConnection): void {
    this.#connections.delete(connection);
  }

  /** Uses another certificate for new connections. A listener without a certificate stays without. */
  renew(tls: PlaneServerTls): void {
    this.#securing?.setSecureContext(serverTlsOptions(tls));
  }

  /** Closes the listener and every connection. Every stream fails, those that wait for a worker with `error`. */
  async close(error: ServeError): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const stream of [...this.#expected.values()]) stream.lost(error);
    for (const connection of this.#connections) connection.destroy();
    await closed;
  }

  #add(connection: HomeConnection): void {
    this.#connections.add(connection);
    this.#unproven.add(connection);
  }
}
