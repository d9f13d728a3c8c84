import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { workerError } from '../../../errors/index.ts';
import { formatHostPort, listenAddress } from '../../listen-address.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import { Heartbeat } from './heartbeat.ts';
import type { HelloAck } from './records.ts';
import { type ConnectionHost, ServerConnection } from './server-connection.ts';
import type { TcpSettings } from './settings.ts';

const CONNECTIONS_MAX = 16_384;
// write() says "enough" at this many bytes not yet taken by the kernel, a few engine steps of a full connection.
const WRITE_BUFFER_BYTES = 256 << 10;

/** The serving side: one listener for every endpoint of the process, whatever their instance ids. */
export class TcpPlaneServer implements PlaneServer, ConnectionHost {
  readonly #settings: TcpSettings;
  readonly #instanceId: string;
  readonly #heartbeat: Heartbeat;
  readonly #listener: Server;
  readonly #handlers = new Map<string, PlaneHandler>();
  readonly #connections = new Set<ServerConnection>();
  readonly #address: string;
  #isDraining = false;

  private constructor(settings: TcpSettings, options: ServeOptions, listener: Server, advertise: string) {
    this.#settings = settings;
    this.#instanceId = options.instanceId;
    this.#heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#listener = listener;
    const { port } = listener.address() as AddressInfo; // a listening TCP server has an AddressInfo
    this.#address = formatHostPort(advertise, port);
    listener.on('error', () => settings.observer.connectionError()); // of an accept: the listener goes on
    listener.on('connection', (socket) => {
      this.#connections.add(new ServerConnection(socket, settings, this.#heartbeat, this));
    });
  }

  /** Listens. Rejects when the address cannot be bound. */
  static async listen(settings: TcpSettings, options: ServeOptions): Promise<TcpPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    const listener = createServer({ noDelay: true, highWaterMark: WRITE_BUFFER_BYTES });
    listener.maxConnections = CONNECTIONS_MAX;
    listener.listen(settings.port, bind);
    await once(listener, 'listening');
    return new TcpPlaneServer(settings, options, listener, advertise);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  get activeStreams(): number {
    let count = 0;
    for (const connection of this.#connections) count += connection.streamCount;
    return count;
  }

  handle(endpoint: string, handler: PlaneHandler): Transport {
    this.#handlers.set(endpoint, handler);
    return { tcp: `${this.#address}/${endpoint}` };
  }

  unhandle(endpoint: string): void {
    this.#handlers.delete(endpoint);
  }

  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (const connection of this.#connections) connection.sendGoAway();
  }

  async close(): Promise<void> {
    this.#isDraining = true;
    if (!this.#listener.listening) return;
    const closed = once(this.#listener, 'close');
    this.#listener.close();
    for (const connection of [...this.#connections]) connection.close('the worker was closed');
    await closed;
  }

  greet(hello: Readonly<Record<string, unknown>>): HelloAck {
    const { token, frameBytesMax } = this.#settings;
    if (token !== undefined && !isSameSecret(token, hello.token)) {
      throw workerError('Unauthenticated', 'the plane token does not match');
    }
    const wanted = hello.instanceId;
    if (typeof wanted === 'string' && !this.#serves(wanted)) {
      throw workerError('WorkerUnavailable', `Server unavailable: no instance ${wanted}`);
    }
    const instanceId = typeof wanted === 'string' ? wanted : this.#instanceId;
    return { instanceId, endpoints: [...this.#handlers.keys()], maxFrame: frameBytesMax };
  }

  handlerOf(endpoint: string): PlaneHandler {
    const handler = this.#isDraining ? undefined : this.#handlers.get(endpoint);
    if (handler !== undefined) return handler;
    throw workerError('WorkerUnavailable', `Server unavailable: ${this.#isDraining ? 'draining' : endpoint}`);
  }

  closed(connection: ServerConnection): void {
    this.#connections.delete(connection);
  }

  #serves(instanceId: string): boolean {
    if (instanceId === this.#instanceId) return true;
    for (const endpoint of this.#handlers.keys()) if (endpoint.startsWith(`${instanceId}/`)) return true;
    return false;
  }
}

/** Compares without telling by its duration how much was right. */
function isSameSecret(expected: string, given: unknown): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return typeof given === 'string' && timingSafeEqual(digest(expected), digest(given));
}
