import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { FleetSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type DiscoveryBaseOptions, DiscoveryError } from '../options.ts';

/** Certificates for etcd; paths of PEM files, which are read at each connection because they are renewed. */
export interface EtcdTls {
  /** @default the authorities that Node trusts */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** Cluster and identity of a client. */
export interface EtcdPlace {
  /** URLs of the members, `http:` or `https:`. At least one. */
  readonly endpoints: readonly string[];
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: EtcdTls;
  /** Time for which a connection may be silent before it is probed. @default 6000, as etcd refuses less than 5000 */
  readonly probeMs?: number;
}

export interface EtcdDiscoveryOptions extends DiscoveryBaseOptions, EtcdPlace {}

/** Certificates of a connection, as the library takes them. */
export interface ReadCertificates {
  readonly ca: Buffer | null;
  readonly cert: Buffer | null;
  readonly key: Buffer | null;
}

/** Returns the options that the settings name. @throws DiscoveryError for settings that cannot be followed */
export function etcdPlaceOf(settings: FleetSettings): EtcdPlace {
  const { etcdEndpoints: endpoints, etcdAuthUsername: username, etcdAuthPassword: password } = settings;
  const { etcdAuthCa: caFile, etcdAuthClientCert: certFile, etcdAuthClientKey: keyFile } = settings;
  const tls = { caFile, certFile, keyFile };
  readCertificates(tls); // so that a start fails, and not the first connection
  return { endpoints, username, password, tls };
}

/** @throws DiscoveryError `misconfigured` for a file that cannot be read or is not what it should be */
export function readCertificates({ caFile, certFile, keyFile }: EtcdTls): ReadCertificates {
  const ca = read('ETCD_AUTH_CA', caFile);
  const cert = read('ETCD_AUTH_CLIENT_CERT', certFile);
  const key = read('ETCD_AUTH_CLIENT_KEY', keyFile);
  try {
    if (ca !== null) new X509Certificate(ca); // the line below takes any text as an authority
    createSecureContext({ ...(ca && { ca }), ...(cert && key && { cert, key }) });
  } catch (cause) {
    const files = [caFile, certFile, keyFile].filter((file) => file !== undefined).join(', ');
    throw new DiscoveryError('misconfigured', `the certificates for etcd (${files}) are broken: ${reasonOf(cause)}`);
  }
  return { ca, cert, key };
}

function read(name: string, path: string | undefined): Buffer | null {
  if (path === undefined) return null;
  try {
    return readFileSync(path); // a few kilobytes, once for each connection
  } catch (cause) {
    throw new DiscoveryError('misconfigured', `${name}: cannot read ${path}: ${reasonOf(cause)}`, cause);
  }
}
