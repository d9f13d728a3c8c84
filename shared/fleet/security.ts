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

/** A place where the plane token would cross the network as a header. */
interface ShownToken {
  /** Beginning of the error line: the process that shows the token or receives it. */
  readonly what: string;
  readonly host: string;
  /** Changes that avoid this, best first, each as a clause. */
  readonly remedies: readonly string[];
}

/**
 * Returns why the plane token must not be sent to `host` unencrypted, as one line that says what to set. Returns
 * undefined if it may be sent:
 * - there is no token
 * - the token does not leave the machine, and `STATOR_PLANE_TLS` is not `on`
 * - the operator allows it with `STATOR_PLANE_TLS=off`
 */
export function refuseClearToken(
  { planeToken, planeTls }: FleetSettings,
  { what, host, remedies }: ShownToken,
): string | undefined {
  if (planeToken === undefined || planeTls === 'off' || (planeTls === 'auto' && isLoopback(host))) return undefined;
  const choices = [...remedies, 'set STATOR_PLANE_TLS=off if no one else can read the network'];
  return `${what} STATOR_PLANE_TOKEN in clear at ${host}: ${choices.join(', or ')}`;
}

/** A listener that receives the plane token as a header: worker controls, the services of a router. */
interface ServiceListener {
  /** Name that its operator knows. @example 'the control server' */
  readonly name: string;
  /** Address that it binds: an IP address or a host name, without a port. */
  readonly host: string;
  /** Change that keeps it on this machine, as a clause. @example 'set STATOR_CONTROL_HOST=127.0.0.1' */
  readonly remedy: string;
}

/** The callers that a service accepts, and the certificate that it shows them. */
export interface ServiceSecurity {
  readonly admission: Admission;
  /** Certificate of the service, the same as of the request plane; undefined = no TLS. */
  readonly tls: PlaneServerTls | undefined;
}

/**
 * Returns how a service of the fleet is protected, as the settings ask. Callers on other machines must show a token or
 * a certificate. A token crosses no network unencrypted unless `STATOR_PLANE_TLS=off` allows it.
 *
 * @throws Error with one line that says what to set if the service must not be opened, or a certificate cannot be used
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

/**
 * Calls `use` with the certificate of a service whenever its files change. Cancel the timer together with the service.
 */
export function followServiceCertificate(
  settings: FleetSettings,
  clock: Clock,
  tls: PlaneServerTls | undefined,
  use: (renewed: PlaneServerTls) => void,
): Timer | undefined {
  return tls && followCertificates(clock, () => readServerTls(settings), tls, use);
}
