import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { isLoopback } from '../../listen-address.ts';
import type { PlaneSecret, PlaneSecrets } from '../frames/peer-trust.ts';

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

/**
 * TLS by a key that both sides have, and no certificate: each side proves that it has it. A listener names the tokens that it knows, and
 * a caller takes the newest that both know. With none in common it takes its own, and fails by that.
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
    checkServerIdentity: () => undefined, // there is no certificate to look at: the key is the identity
  };
}

/** The newest token that `names` has; the current one where it has none. */
function chosen(secrets: PlaneSecrets, names: string): PlaneSecret {
  return secrets.named(names.split(' ')) ?? secrets.current;
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

/** When the token alone encrypts (`STATOR_PLANE_TLS`); `auto` = whatever leaves the machine. */
export type TokenEncryption = 'auto' | 'on' | 'off';

/** What decides how a process encrypts. Nothing of it comes from discovery or from the other side. */
export interface EncryptionSettings {
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly secret: PlaneSecrets | undefined;
}

/** How a caller speaks to `host`; undefined = plainly. */
export function securityTo(host: string, settings: EncryptionSettings): ConnectionOptions | undefined {
  if (settings.tls?.client !== undefined) return clientTlsOptions(settings.tls.client);
  const secrets = secretsFor(host, settings);
  return secrets && keyClientOptions(secrets);
}

/**
 * How a listener speaks to a caller that has dialled its address `host`; undefined = plainly. Both sides decide by that
 * address, and so alike.
 */
export function securityAt(host: string, settings: EncryptionSettings): TlsOptions | undefined {
  if (settings.tls?.server !== undefined) return serverTlsOptions(settings.tls.server);
  const secrets = secretsFor(host, settings);
  return secrets && keyServerOptions(secrets);
}

/** What both sides derive a key from, where it encrypts what is said at `host`. */
function secretsFor(host: string, { encryption, secret }: EncryptionSettings): PlaneSecrets | undefined {
  const isWanted = encryption === 'on' || (encryption === 'auto' && !isLoopback(host));
  return isWanted ? secret : undefined;
}
