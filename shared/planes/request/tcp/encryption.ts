import { isLoopback } from '../../listen-address.ts';
import type { PlaneSecret } from '../frames/plane-secret.ts';
import type { PlaneClientTls, PlaneServerTls, PlaneTls } from './tls.ts';

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
