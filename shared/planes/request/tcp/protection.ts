import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Clock, Timer } from '../../../clock/index.ts';
import { type FleetSettings, isOfManyMachines } from '../../../config/index.ts';
import { reasonOf } from '../../../errors/index.ts';
import type { TcpRequestPlane } from './plane.ts';
import type { PlaneClientTls, PlaneServerTls, PlaneTls } from './tls.ts';

/** Time within which renewed files take effect. */
const LOOK_INTERVAL_MS = 10_000;

/**
 * Returns the TLS of the request plane by the settings; undefined = no TLS. A caller uses TLS if it has an authority or
 * a client certificate, or if it may accept any certificate. A server uses TLS if it has a certificate.
 *
 * @throws Error with one line that names the flags to check.
 */
export function readPlaneTls(settings: FleetSettings): PlaneTls | undefined {
  const server = readServerTls(settings);
  const client = clientTls(settings);
  if (server === undefined && client === undefined) return undefined;
  return { server, client, handshakeTimeoutMs: settings.tcpTlsHandshakeTimeoutSecs * 1000 };
}

/** Wraps `plane` so that it uses certificates that are renewed while it runs. */
export function followPlaneTls(
  plane: TcpRequestPlane,
  settings: FleetSettings,
  current: PlaneTls,
  clock: Clock,
): TcpRequestPlane {
  const timer = followCertificates(
    clock,
    () => readPlaneTls(settings),
    current,
    (found) => plane.renewTls(found),
  );
  return {
    ...plane,
    close: () => {
      timer.cancel();
      return plane.close();
    },
  };
}

/** Passes the result of `read` to `use` whenever it has changed. Files that are half written are tried again. */
export function followCertificates<Certificates>(
  clock: Clock,
  read: () => Certificates | undefined,
  current: Certificates,
  use: (found: Certificates) => void,
): Timer {
  let known = JSON.stringify(current);
  return clock.every(LOOK_INTERVAL_MS, () => {
    try {
      const found = read();
      const text = JSON.stringify(found);
      if (found === undefined || text === known) return;
      known = text;
      use(found);
    } catch {
      // A certificate and a key of different ages, or a file that is missing while it is replaced: the next attempt
      // decides.
    }
  });
}

/** @throws Error with one line that names the flags to check */
export function readServerTls(settings: FleetSettings): PlaneServerTls | undefined {
  const { tcpTlsCertPath: cert, tcpTlsKeyPath: key, tcpTlsClientCaCertPath: clientCa } = settings;
  if (cert === undefined && key === undefined) return undefined;
  const pair = readPair('--tcp-tls-cert-path', cert, '--tcp-tls-key-path', key);
  return { ...pair, clientCa: clientCa && read('--tcp-tls-client-ca-cert-path', clientCa) };
}

function clientTls(settings: FleetSettings): PlaneClientTls | undefined {
  const { tcpTlsCaCertPath: ca, tcpTlsClientCertPath: cert, tcpTlsClientKeyPath: key } = settings;
  const { tcpTlsInsecure: isInsecure, tcpTlsServerName: serverName } = settings;
  if (ca === undefined && cert === undefined && !isInsecure) return undefined;
  const pair =
    cert === undefined && key === undefined
      ? undefined
      : readPair('--tcp-tls-client-cert-path', cert, '--tcp-tls-client-key-path', key);
  return { ...pair, ca: ca && read('--tcp-tls-ca-cert-path', ca), serverName, isInsecure };
}

function readPair(certFlag: string, certPath: string | undefined, keyFlag: string, keyPath: string | undefined) {
  if (certPath === undefined || keyPath === undefined) {
    throw new Error(`${certFlag} and ${keyFlag} belong together: set both`);
  }
  const pair = { cert: read(certFlag, certPath), key: read(keyFlag, keyPath) };
  try {
    createSecureContext(pair);
  } catch (cause) {
    const flags = `${certFlag} ${certPath} and ${keyFlag} ${keyPath}`;
    throw new Error(`${flags} are not a certificate and its key: ${reasonOf(cause)}`, { cause });
  }
  return pair;
}

function read(flag: string, path: string): string {
  try {
    return readFileSync(path, 'utf8'); // at the start, and a few kilobytes every ten seconds
  } catch (cause) {
    throw new Error(`${flag}: cannot read ${path}: ${reasonOf(cause)}`, { cause });
  }
}

/** Proof that the TCP plane, and the services beside it, require of callers. */
export function protectionOf({
  planeToken,
  tcpTlsCertPath,
  tcpTlsClientCaCertPath,
}: FleetSettings): 'token' | 'mTLS' | undefined {
  if (planeToken !== undefined) return 'token';
  return tcpTlsCertPath !== undefined && tcpTlsClientCaCertPath !== undefined ? 'mTLS' : undefined;
}

/**
 * Returns the address that a listener of the fleet binds if it is `auto` or not set. It is loopback if callers need no
 * proof and the whole fleet is on this machine, otherwise every interface.
 * @param protectedBy proof that callers give
 */
export function fleetHost(
  host: string | undefined,
  settings: FleetSettings,
  protectedBy: 'token' | 'mTLS' | undefined,
): string {
  if (host !== undefined && host !== 'auto') return host;
  const isReached = protectedBy !== undefined || settings.planeOpen === true;
  return isReached || isOfManyMachines(settings.discoveryBackend) ? 'auto' : '127.0.0.1';
}
