import { type ConnectionOptions, connect, type TLSSocket, type TlsOptions } from 'node:tls';
import { isLoopback } from '../../listen-address.ts';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { PeerFault, type PlaneSecret } from '../frames/peer-trust.ts';

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

/** TLS of the plane by certificates. A side without an entry is encrypted by the token, or speaks plainly. */
export interface PlaneTls {
  readonly server?: PlaneServerTls | undefined;
  readonly client?: PlaneClientTls | undefined;
  /** @default 3000 */
  readonly handshakeTimeoutMs?: number | undefined;
}

const HANDSHAKE_TIMEOUT_MS = 3000;

export function handshakeTimeoutOf(tls: PlaneTls | undefined): number {
  return tls?.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS;
}

/** Opens a secured channel with the options of `net.connect`, `onread` among them. */
export function connectSecurely(options: object, security: Security<PlaneClientTls>): ByteChannel {
  const secure = security.kind === 'key' ? keyClientOptions(security.key) : clientTlsOptions(security.tls);
  // The types of tls.connect leave out what it hands on to the socket.
  return new SecureChannel(connect({ ...options, ...secure } as ConnectionOptions));
}

/** What Node's servers take. */
export function serverTlsOptions({ cert, key, clientCa }: PlaneServerTls): TlsOptions {
  const base: TlsOptions = { cert, key, minVersion: 'TLSv1.2' };
  return clientCa === undefined ? base : { ...base, ca: clientCa, requestCert: true, rejectUnauthorized: true };
}

const KEY_NAME = 'stator';
/** Ephemeral keys: who learns the token later cannot read what was recorded before. Node offers keys up to TLS 1.2 only. */
const KEY_OPTIONS = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;

/** TLS by a key that both sides have, and no certificate: each side proves that it has it. */
export function keyServerOptions(key: Buffer): TlsOptions {
  return { ...KEY_OPTIONS, pskIdentityHint: KEY_NAME, pskCallback: () => key };
}

function keyClientOptions(psk: Buffer): ConnectionOptions {
  return {
    ...KEY_OPTIONS,
    pskCallback: () => ({ psk, identity: KEY_NAME }),
    checkServerIdentity: () => undefined, // there is no certificate to look at: the key is the identity
  };
}

/** What Node's clients take. */
export function clientTlsOptions({ ca, cert, key, serverName, isInsecure = false }: PlaneClientTls): ConnectionOptions {
  return {
    rejectUnauthorized: !isInsecure,
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
}

/** What a failed handshake with `peer` says to an operator; undefined = nothing that a setting would mend. */
export function explainHandshake(error: Error, peer: 'caller' | 'worker'): string | undefined {
  const code = 'code' in error ? String(error.code) : '';
  if (/WRONG_VERSION_NUMBER|HTTP_REQUEST|UNEXPECTED_MESSAGE/.test(code)) {
    return `the ${peer} speaks plainly and this process encrypts: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends`;
  }
  if (/BAD_RECORD_MAC|DECRYPT/.test(code)) return `the ${peer} knows another STATOR_PLANE_TOKEN`;
  if (/NO_SHARED_CIPHER|HANDSHAKE_FAILURE|PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS/.test(code)) {
    return `the ${peer} and this process do not encrypt alike: one has certificates (DYN_TCP_TLS_*), the other STATOR_PLANE_TOKEN alone`;
  }
  return undefined;
}

/** A TLS socket that counts as connected once it is secured: before that, whom it speaks to is not known. */
class SecureChannel implements ByteChannel {
  readonly #socket: TLSSocket;
  #isSecured = false;

  constructor(socket: TLSSocket) {
    this.#socket = socket;
    socket.once('secureConnect', () => {
      this.#isSecured = true;
    });
  }

  get destroyed(): boolean {
    return this.#socket.destroyed;
  }

  get writableLength(): number {
    return this.#socket.writableLength;
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  exportKeyingMaterial(bytes: number, label: string, context: Buffer): Buffer {
    return this.#socket.exportKeyingMaterial(bytes, label, context);
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
    const heard = listener as (argument: unknown) => void; // as the event has it
    if (event === 'error') this.#socket.on('error', (error) => heard(this.#explain(error)));
    else this.#socket.on(event === 'connect' ? 'secureConnect' : event, heard);
  }

  once(event: string, listener: () => void): void {
    this.#socket.once(event, listener);
  }

  #explain(error: Error): Error {
    const reason = this.#isSecured ? undefined : explainHandshake(error, 'worker');
    return reason === undefined ? error : new PeerFault(reason, { cause: error });
  }
}

/** When the token alone encrypts (`STATOR_PLANE_TLS`); `auto` = whatever leaves the machine. */
export type TokenEncryption = 'auto' | 'on' | 'off';

/** How one side secures a channel: by certificates, or by a key that both sides derive from the token. */
export type Security<Certificates> =
  | { readonly kind: 'certificates'; readonly tls: Certificates }
  | { readonly kind: 'key'; readonly key: Buffer };

/** What decides how a process encrypts. Nothing of it comes from discovery or from the other side. */
export interface EncryptionSettings {
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly secret: PlaneSecret | undefined;
}

/** How a caller speaks to `host`; undefined = plainly. */
export function securityTo(host: string, settings: EncryptionSettings): Security<PlaneClientTls> | undefined {
  return securityOf(settings.tls?.client, isLoopback(host), settings);
}

/**
 * How a listener speaks to a caller that has dialled its address `host`; undefined = plainly. Both sides decide by that
 * address, and so alike.
 */
export function securityAt(host: string, settings: EncryptionSettings): Security<PlaneServerTls> | undefined {
  return securityOf(settings.tls?.server, isLoopback(host), settings);
}

function securityOf<Certificates>(
  tls: Certificates | undefined,
  isLocal: boolean,
  { encryption, secret }: EncryptionSettings,
): Security<Certificates> | undefined {
  if (tls !== undefined) return { kind: 'certificates', tls };
  if (secret === undefined || encryption === 'off' || (encryption === 'auto' && isLocal)) return undefined;
  return { kind: 'key', key: secret.tlsKey };
}
