import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { systemClock } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { PlaneClientTls, PlaneServerTls, PlaneTls, TcpRequestPlane } from '../planes/request/index.ts';

/** Renewed files show within this. */
const LOOK_INTERVAL_MS = 10_000;

/**
 * TLS of the request plane as the settings ask; undefined = plain. A caller is secured by the authority, the client
 * certificate or the permission to be insecure; a server by its certificate.
 *
 * @throws Error with one line that names the flags to look at.
 */
export function readPlaneTls(settings: FleetSettings): PlaneTls | undefined {
  const server = serverTls(settings);
  const client = clientTls(settings);
  if (server === undefined && client === undefined) return undefined;
  return { server, client, handshakeTimeoutMs: settings.tcpTlsHandshakeTimeoutSecs * 1000 };
}

/** `plane`, which takes up certificates that are renewed while it runs. Files that are half written are tried again. */
export function followPlaneTls(plane: TcpRequestPlane, settings: FleetSettings, current: PlaneTls): TcpRequestPlane {
  let known = JSON.stringify(current);
  const timer = systemClock.every(LOOK_INTERVAL_MS, () => {
    try {
      const found = readPlaneTls(settings);
      const text = JSON.stringify(found);
      if (found === undefined || text === known) return;
      known = text;
      plane.renewTls(found);
    } catch {
      // A certificate and a key of different ages, or a file that is away while it is replaced: the next look tells.
    }
  });
  return {
    ...plane,
    close: () => {
      timer.cancel();
      return plane.close();
    },
  };
}

function serverTls(settings: FleetSettings): PlaneServerTls | undefined {
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
    throw new Error(`${certFlag} and ${keyFlag} belong together: give both`);
  }
  const pair = { cert: read(certFlag, certPath), key: read(keyFlag, keyPath) };
  try {
    createSecureContext(pair);
  } catch (cause) {
    const flags = `${certFlag} ${certPath} and ${keyFlag} ${keyPath}`;
    throw new Error(`${flags} are no certificate and key that belong together: ${reasonOf(cause)}`, { cause });
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
