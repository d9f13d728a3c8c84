import type { Admission } from '../access/index.ts';
import type { Clock, Timer } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import {
  followCertificates,
  isLoopback,
  type PlaneServerTls,
  protectionOf,
  readServerTls,
  refuseOpenListener,
} from '../planes/index.ts';

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
  const { planeToken: secret, planeTokenPrevious, planeTls, planeOpen = false } = settings;
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
  const isOpen = (planeOpen || hasMutualTls) && !isLoopback(host);
  return { admission: { secret, previousSecret: planeTokenPrevious ?? undefined, isOpen }, tls };
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
