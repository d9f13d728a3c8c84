import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';
import { formatHostPort, listenAddress } from '../../listen-address.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import type { TcpSettings } from './settings.ts';
import { createListener, type PlaneServerTls, renewCertificate } from './tls.ts';

const CONNECTIONS_MAX = 16_384;
// write() says "enough" at this many bytes not yet taken by the kernel, a few engine steps of a full connection.
const WRITE_BUFFER_BYTES = 256 << 10;

/** The serving side: one listener for every endpoint of the process, whatever their instance ids. */
export class TcpPlaneServer implements PlaneServer {
  readonly #host: EndpointHost;
  readonly #listener: Server;
  readonly #address: string;

  private constructor(
    settings: TcpSettings,
    options: ServeOptions,
    { listener, accepted }: ReturnType<typeof createListener>,
    advertise: string,
  ) {
    this.#host = new EndpointHost(settings, options.instanceId);
    this.#listener = listener;
    const { port } = listener.address() as AddressInfo; // a listening TCP server has an AddressInfo
    this.#address = formatHostPort(advertise, port);
    const heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    listener.on('error', () => settings.observer.connectionError()); // of an accept: the listener goes on
    listener.on('tlsClientError', () => settings.observer.connectionError()); // of a handshake
    listener.on(accepted, (socket: Socket) => {
      this.#host.connections.add(new ServerConnection(socket, settings, heartbeat, this.#host));
    });
  }

  /** Listens. Rejects when the address cannot be bound. */
  static async listen(settings: TcpSettings, options: ServeOptions): Promise<TcpPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    const created = createListener(settings.tls, { noDelay: true, highWaterMark: WRITE_BUFFER_BYTES });
    const { listener } = created;
    listener.maxConnections = CONNECTIONS_MAX;
    listener.listen(settings.port, bind);
    await once(listener, 'listening');
    return new TcpPlaneServer(settings, options, created, advertise);
  }

  get activeStreams(): number {
    return this.#host.activeStreams;
  }

  /** Shows another certificate from the next connection on. */
  renew(tls: PlaneServerTls): void {
    renewCertificate(this.#listener, tls);
  }

  handle(endpoint: string, handler: PlaneHandler): Transport {
    this.#host.handle(endpoint, handler);
    return { tcp: `${this.#address}/${endpoint}` };
  }

  unhandle(endpoint: string): void {
    this.#host.unhandle(endpoint);
  }

  drain(): void {
    this.#host.drain();
  }

  async close(): Promise<void> {
    if (!this.#listener.listening) return;
    const closed = once(this.#listener, 'close');
    this.#listener.close();
    this.#host.close();
    await closed;
  }
}
