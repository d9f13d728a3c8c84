import type { PortRange } from '../../../config/index.ts';
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
  /** Address under which others reach it, where that is not the one it binds (`DYN_TCP_RPC_ADVERTISE_HOST`). */
  readonly advertiseHost?: string | undefined;
  /** Ports that a server binds the first free one of. @default any free one */
  readonly ports?: PortRange;
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
  readonly advertiseHost: string | undefined;
  readonly ports: PortRange;
  readonly tls: PlaneTls | undefined;
  readonly encryption: TokenEncryption;
  readonly open: boolean;
};
