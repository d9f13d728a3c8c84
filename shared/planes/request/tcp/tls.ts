import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { isLoopback } from '../../listen-address.ts';
import type { PlaneSecret, PlaneSecrets } from '../frames/peer-trust.ts';

/** Certificates of the serving side; PEM texts. */
export interface PlaneServerTls {
  readonly cert: string;
  readonly key: string;
  /** Authority of callers' certificates; set = mutual TLS. */
  readonly clientCa?: string | undefined;
}

/** Certificates of the calling side; PEM texts. */
export interface PlaneClientTls {
  /** Authority of workers' certificates. @default the authorities that Node trusts */
  readonly ca?: string | undefined;
  /** Client certificate for workers that ask for one, with its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Name that a worker's certificate must hold. @default the worker's address */
  readonly serverName?: string | undefined;
  /** Accepts any certificate; for development. @default false */
  readonly isInsecure?: boolean | undefined;
}

/** TLS of the plane by certificates. A side without an entry is encrypted by the token, or not at all. */
export interface PlaneTls {
  readonly server?: PlaneServerTls | undefined;
  readonly client?: PlaneClientTls | undefined;
  /** @default 3000 */
  readonly handshakeTimeoutMs?: number | undefined;
}

/** Options of Node's TLS servers. */
export function serverTlsOptions({ cert, key, clientCa }: PlaneServerTls): TlsOptions {
  const base: TlsOptions = { cert, key, minVersion: 'TLSv1.2' };
  return clientCa === undefined ? base : { ...base, ca: clientCa, requestCert: true, rejectUnauthorized: true };
}

const KEY_NAME = 'stator';
/**
 * Cipher suites with ephemeral keys: a person who learns the token later cannot read earlier recordings. Node offers
 * pre-shared keys only up to TLS 1.2.
 */
const KEY_OPTIONS = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;

/**
 * TLS with a key that both sides have, and no certificate: each side proves that it has the key. A listener names the
 * tokens that it knows, and a caller takes the newest that both know. If they share none, the caller takes its own, and
 * the handshake fails.
 */
function keyServerOptions(secrets: PlaneSecrets): TlsOptions {
  const hint = [KEY_NAME, ...secrets.all.map(({ name }) => name)].join(' ');
  const pskCallback = (_socket: unknown, identity: string): Buffer => chosen(secrets, identity).tlsKey;
  return { ...KEY_OPTIONS, pskIdentityHint: hint, pskCallback };
}

function keyClientOptions(secrets: PlaneSecrets): ConnectionOptions {
  return {
    ...KEY_OPTIONS,
    pskCallback: (hint) => {
      const { tlsKey: psk, name } = chosen(secrets, hint ?? '');
      return { psk, identity: `${KEY_NAME} ${name}` };
    },
    checkServerIdentity: () => undefined, // there is no certificate to check: the key is the identity
  };
}

/** Returns the newest token that `names` contains; the current one if it contains none. */
function chosen(secrets: PlaneSecrets, names: string): PlaneSecret {
  return secrets.named(names.split(' ')) ?? secrets.current;
}

/** Options of Node's TLS clients. */
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

/** Connections that only the token encrypts (`STATOR_PLANE_TLS`); `auto` = all that leave the machine. */
export type TokenEncryption = 'auto' | 'on' | 'off';

/** Facts that decide how a process encrypts. None of them comes from discovery or from the other side. */
export interface EncryptionSettings {
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly secret: PlaneSecrets | undefined;
}

/** Returns how a caller secures a connection to `host`; undefined = plain. */
export function securityTo(host: string, settings: EncryptionSettings): ConnectionOptions | undefined {
  if (settings.tls?.client !== undefined) return clientTlsOptions(settings.tls.client);
  const secrets = secretsFor(host, settings);
  return secrets && keyClientOptions(secrets);
}

/**
 * Returns how a listener secures a connection of a caller that has dialled its address `host`; undefined = plain. Both
 * sides use that address, and so decide in the same way.
 */
export function securityAt(host: string, settings: EncryptionSettings): TlsOptions | undefined {
  if (settings.tls?.server !== undefined) return serverTlsOptions(settings.tls.server);
  const secrets = secretsFor(host, settings);
  return secrets && keyServerOptions(secrets);
}

/** Returns the token from which both sides derive a key, if connections at `host` are encrypted. */
function secretsFor(host: string, { encryption, secret }: EncryptionSettings): PlaneSecrets | undefined {
  const isWanted = encryption === 'on' || (encryption === 'auto' && !isLoopback(host));
  return isWanted ? secret : undefined;
}
