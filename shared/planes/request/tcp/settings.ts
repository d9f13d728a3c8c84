import type { ConnectionOptions, ConnectionSettings } from '../frames/settings.ts';
import type { PlaneTls } from './tls.ts';

/** Settings of the TCP plane (configuration.md, section 11). */
export interface TcpRequestPlaneOptions extends ConnectionOptions {
  /**
   * Address that a server binds and advertises (`DYN_TCP_RPC_HOST`). `auto` and the wildcard addresses bind every
   * interface and advertise the first address that is not a loopback. @default 'auto'
   */
  readonly host?: string;
  /** Port that a server binds; 0 = any free one. @default 0 */
  readonly port?: number;
  /** Encrypts, and proves who is who. @default plain */
  readonly tls?: PlaneTls;
}

/** The options with their defaults applied. */
export type TcpSettings = ConnectionSettings & {
  readonly host: string;
  readonly port: number;
  readonly tls: PlaneTls | undefined;
};
