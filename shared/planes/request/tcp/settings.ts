import type { ConnectionOptions, ConnectionSettings } from '../frames/settings.ts';
import type { TokenEncryption } from './encryption.ts';
import type { PlaneTls } from './tls.ts';

/** Settings of the TCP plane. */
export interface TcpRequestPlaneOptions extends ConnectionOptions {
  /**
   * Address that a server binds and advertises (`DYN_TCP_RPC_HOST`). `auto` and the wildcard addresses bind every
   * interface and advertise the first address that is not a loopback. @default 'auto'
   */
  readonly host?: string;
  /** Port that a server binds; 0 = any free one. @default 0 */
  readonly port?: number;
  /** Certificates, which always encrypt. @default none */
  readonly tls?: PlaneTls;
  /** When the token encrypts where there is no certificate (`STATOR_PLANE_TLS`). @default 'auto', beyond loopback */
  readonly encryption?: TokenEncryption;
  /**
   * Whether a server may listen where others reach it, although callers prove nothing (`STATOR_PLANE_OPEN`).
   * @default false
   */
  readonly open?: boolean;
}

/** The options with their defaults applied. */
export type TcpSettings = ConnectionSettings & {
  readonly host: string;
  readonly port: number;
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly open: boolean;
};
