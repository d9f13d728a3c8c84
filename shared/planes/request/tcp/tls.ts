import { createServer as createPlainServer, type Server } from 'node:net';
import {
  type ConnectionOptions,
  connect,
  createServer as createTlsServer,
  type TLSSocket,
  type TlsOptions,
  Server as TlsServer,
} from 'node:tls';
import type { ByteChannel } from '../frames/byte-channel.ts';

/** What the serving side shows and asks for; PEM texts. */
export interface PlaneServerTls {
  readonly cert: string;
  readonly key: string;
  /** Authority of callers' certificates; set = mutual TLS. */
  readonly clientCa?: string | undefined;
}

/** What the calling side checks and shows; PEM texts. */
export interface PlaneClientTls {
  /** Authority of workers' certificates. @default the authorities that Node trusts */
  readonly ca?: string | undefined;
  /** Shown to workers that ask for one, with its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Name that a worker's certificate must hold. @default the worker's address */
  readonly serverName?: string | undefined;
  /** Takes any certificate; for development. @default false */
  readonly isInsecure?: boolean | undefined;
}

/** TLS of the plane. A side without an entry speaks plainly. */
export interface PlaneTls {
  readonly server?: PlaneServerTls | undefined;
  readonly client?: PlaneClientTls | undefined;
  /** @default 3000 */
  readonly handshakeTimeoutMs?: number | undefined;
}

const HANDSHAKE_TIMEOUT_MS = 3000;

/** A listener that does not listen yet, and its event for a connection that can be used. */
export function createListener(
  tls: PlaneTls | undefined,
  options: { readonly noDelay: boolean; readonly highWaterMark: number },
): { readonly listener: Server; readonly accepted: 'connection' | 'secureConnection' } {
  if (tls?.server === undefined) return { listener: createPlainServer(options), accepted: 'connection' };
  const handshakeTimeout = tls.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS;
  const listener = createTlsServer({ ...options, ...serverOptions(tls.server), handshakeTimeout });
  return { listener, accepted: 'secureConnection' };
}

/** Shows another certificate from the next connection on; a plain listener stays plain. */
export function renewCertificate(listener: Server, tls: PlaneServerTls): void {
  if (listener instanceof TlsServer) listener.setSecureContext(serverOptions(tls));
}

/** Opens a secured channel with the options of `net.connect`, `onread` among them. */
export function connectSecurely(options: object, tls: PlaneClientTls): ByteChannel {
  // The types of tls.connect leave out what it hands on to the socket.
  return new SecureChannel(connect({ ...options, ...clientOptions(tls) } as ConnectionOptions));
}

function serverOptions({ cert, key, clientCa }: PlaneServerTls): TlsOptions {
  const base: TlsOptions = { cert, key, minVersion: 'TLSv1.2' };
  return clientCa === undefined ? base : { ...base, ca: clientCa, requestCert: true, rejectUnauthorized: true };
}

function clientOptions({ ca, cert, key, serverName, isInsecure = false }: PlaneClientTls): ConnectionOptions {
  return {
    rejectUnauthorized: !isInsecure,
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
}

/** A TLS socket that counts as connected once it is secured: before that, whom it speaks to is not known. */
class SecureChannel implements ByteChannel {
  readonly #socket: TLSSocket;

  constructor(socket: TLSSocket) {
    this.#socket = socket;
  }

  get destroyed(): boolean {
    return this.#socket.destroyed;
  }

  get writableLength(): number {
    return this.#socket.writableLength;
  }

  write(bytes: Uint8Array): boolean {
    return this.#socket.write(bytes);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  destroySoon(): void {
    this.#socket.destroySoon();
  }

  ref(): void {
    this.#socket.ref();
  }

  unref(): void {
    this.#socket.unref();
  }

  on(event: string, listener: (argument: never) => void): void {
    this.#socket.on(event === 'connect' ? 'secureConnect' : event, listener as (argument: unknown) => void);
  }

  once(event: string, listener: () => void): void {
    this.#socket.once(event, listener);
  }
}
