import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { formatHostPort, listenAddress } from '../../listen-address.ts';
import { refuseOpenListener } from '../../open-listener.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import { createListener, type PlaneListener } from './listener.ts';
import type { TcpSettings } from './settings.ts';
import type { PlaneServerTls } from './tls.ts';

const CONNECTIONS_MAX = 16_384;

/** The serving side: one listener for every endpoint of the process, whatever their instance ids. */
export class TcpPlaneServer implements PlaneServer {
  readonly #host: EndpointHost;
  readonly #listener: PlaneListener;
  readonly #server: Server;
  readonly #advertise: string;

  private constructor(settings: TcpSettings, options: ServeOptions, advertise: string) {
    const { observer } = settings;
    const heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#advertise = advertise;
    this.#host = new EndpointHost(settings, options.instanceId);
    this.#listener = createListener(settings, {
      accepted: (channel) => this.#host.add(new ServerConnection(channel, settings, heartbeat, this.#host)),
      failed: () => observer.connectionError(),
      refused: (address, reason) => observer.peerRefused?.(address, reason),
    });
    this.#server = this.#listener.server;
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Listens. Rejects when the address cannot be bound, or when others reach it and their callers prove nothing. */
  static async listen(settings: TcpSettings, options: ServeOptions): Promise<TcpPlaneServer> {
    const { bind, advertise } = listenAddress(settings.host);
    refuseOpen(settings, bind);
    const created = new TcpPlaneServer(settings, options, advertise);
    created.#server.listen(settings.port, bind);
    await once(created.#server, 'listening');
    return created;
  }

  get activeStreams(): number {
    return this.#host.activeStreams;
  }

  /** Shows another certificate from the next connection on. */
  renew(tls: PlaneServerTls): void {
    this.#listener.renew(tls);
  }

  handle(endpoint: string, handler: PlaneHandler): Transport {
    this.#host.handle(endpoint, handler);
    const { port } = this.#server.address() as AddressInfo; // a listening TCP server has an AddressInfo
    return { tcp: `${formatHostPort(this.#advertise, port)}/${endpoint}` };
  }

  unhandle(endpoint: string): void {
    this.#host.unhandle(endpoint);
  }

  drain(): void {
    this.#host.drain();
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#host.close();
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
