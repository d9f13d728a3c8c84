import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { Admission } from '../access/index.ts';
import type { Clock, Timer } from '../clock/index.ts';
import { type FleetSettings, isOfManyMachines } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import {
  isLoopback,
  type PlaneClientTls,
  type PlaneServerTls,
  type PlaneTls,
  refuseOpenListener,
  serverTlsOptions,
  type TcpRequestPlane,
} from '../planes/index.ts';

/** Renewed files show within this. */
const LOOK_INTERVAL_MS = 10_000;

/**
 * TLS of the request plane as the settings ask; undefined = plain. A caller is secured by the authority, the client
 * certificate or the permission to be insecure; a server by its certificate.
 *
 * @throws Error with one line that names the flags to look at.
 */
export function readPlaneTls(settings: FleetSettings): PlaneTls | undefined {
  const server = readServerTls(settings);
  const client = clientTls(settings);
  if (server === undefined && client === undefined) return undefined;
  return { server, client, handshakeTimeoutMs: settings.tcpTlsHandshakeTimeoutSecs * 1000 };
}

/** `plane`, which takes up certificates that are renewed while it runs. */
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

/** Hands `use` what `read` finds whenever it is something else than before. Files that are half written are tried again. */
function followCertificates<Certificates>(
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
      // A certificate and a key of different ages, or a file that is away while it is replaced: the next look tells.
    }
  });
}

/** Where the plane token would be shown as a header. */
interface ShownToken {
  /** Begins the line: what shows it, or is shown it. */
  readonly what: string;
  readonly host: string;
  /** What ends that, best first, each as a clause. */
  readonly remedies: readonly string[];
}

/**
 * Why the plane token must not be shown where nothing encrypts, as one line that says what to set; undefined = it may: there
 * is none, or it does not leave the machine (with `STATOR_PLANE_TLS=on` not even that is enough), or its operator says so.
 */
export function refuseClearToken(
  { planeToken, planeTls }: FleetSettings,
  { what, host, remedies }: ShownToken,
): string | undefined {
  if (planeToken === undefined || planeTls === 'off' || (planeTls === 'auto' && isLoopback(host))) return undefined;
  const choices = [...remedies, 'set STATOR_PLANE_TLS=off where nobody else reads the network'];
  return `${what} STATOR_PLANE_TOKEN in clear at ${host}: ${choices.join(', or ')}`;
}

/** @throws Error with one line that names the flags to look at */
function readServerTls(settings: FleetSettings): PlaneServerTls | undefined {
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

/** What callers of the TCP plane, and of the services beside it, prove. */
export function protectionOf({
  planeToken,
  tcpTlsCertPath,
  tcpTlsClientCaCertPath,
}: FleetSettings): 'token' | 'mTLS' | undefined {
  if (planeToken !== undefined) return 'token';
  return tcpTlsCertPath !== undefined && tcpTlsClientCaCertPath !== undefined ? 'mTLS' : undefined;
}

/** A listener that takes the plane token as a header: worker controls, the services of a router. */
interface ServiceListener {
  /** As its operator knows it. @example 'the control server' */
  readonly name: string;
  /** What it binds: an IP address or a host name, without a port. */
  readonly host: string;
  /** What keeps it on this machine, as a clause. @example 'set STATOR_CONTROL_HOST=127.0.0.1' */
  readonly remedy: string;
}

/** Whom a service answers, and what it shows them first. */
export interface ServiceSecurity {
  readonly admission: Admission;
  /** Its certificate, the one of the request plane; undefined = it speaks plainly. */
  readonly tls: PlaneServerTls | undefined;
}

/**
 * How a service of the fleet is protected, as the settings ask. Beyond loopback its callers show a token or a certificate, and a
 * token crosses no network in clear unless `STATOR_PLANE_TLS=off` says that it may.
 *
 * @throws Error with one line that says what to set when it must not be opened, or a certificate cannot be used
 */
export function secureService(settings: FleetSettings, { name, host, remedy }: ServiceListener): ServiceSecurity {
  const { planeToken: secret, planeTls, planeOpen = false } = settings;
  const tls = readServerTls(settings);
  const hasMutualTls = tls?.clientCa !== undefined;
  const remedies = ['set DYN_TCP_TLS_CERT_PATH and DYN_TCP_TLS_KEY_PATH', ...(isLoopback(host) ? [] : [remedy])];
  const clear = { what: `${name} would be shown`, host, remedies };
  const refusal =
    refuseOpenListener({
      name,
      address: host,
      protectedBy: protectionOf(settings),
      open: planeOpen,
      remedies: ['set STATOR_PLANE_TOKEN', remedy],
    }) ?? (tls === undefined ? refuseClearToken(settings, clear) : undefined);
  if (refusal !== undefined) throw new Error(refusal);
  if (planeTls === 'off' && tls !== undefined) {
    throw new Error('STATOR_PLANE_TLS=off contradicts the certificates of DYN_TCP_TLS_*: leave out one of them');
  }
  return { admission: { secret, isOpen: (planeOpen || hasMutualTls) && !isLoopback(host) }, tls };
}

/** An HTTP server that is given another certificate while it runs. */
interface ServiceServer {
  readonly server: Server;
  useCertificate(tls: PlaneServerTls): void;
}

/** An HTTP server of the fleet, with TLS where there is a certificate. */
export function createServiceServer(
  limits: ServerOptions,
  tls: PlaneServerTls | undefined,
  answer: RequestListener,
): ServiceServer {
  if (tls === undefined) return { server: createServer(limits, answer), useCertificate: () => {} };
  const server = createTlsServer({ ...limits, ...serverTlsOptions(tls) }, answer);
  return { server, useCertificate: (renewed) => server.setSecureContext(serverTlsOptions(renewed)) };
}

/** Hands `use` the certificate of a service whenever its files hold another. Cancel it with the service. */
export function followServiceCertificate(
  settings: FleetSettings,
  clock: Clock,
  tls: PlaneServerTls | undefined,
  use: (renewed: PlaneServerTls) => void,
): Timer | undefined {
  return tls && followCertificates(clock, () => readServerTls(settings), tls, use);
}

/**
 * What a listener of the fleet binds where its address is `auto` or not set: loopback while nothing is proven by callers and the
 * whole fleet is on this machine, else every interface.
 * @param protectedBy what callers prove
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
