import type { Clock } from '../../../clock/index.ts';
import type { PortRange } from '../../../config/index.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import type { PlaneTls } from '../tcp/tls.ts';

/** Settings of a server for callers of Dynamo. */
export interface ServingSettings {
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
  /** Address to bind and to advertise (`DYN_TCP_RPC_HOST`). */
  readonly host: string;
  /** Address under which others reach it, if it differs from the bound one (`DYN_TCP_RPC_ADVERTISE_HOST`). */
  readonly advertiseHost: string | undefined;
  /** Ports of which the first free one is bound (`DYN_TCP_RPC_PORT`). */
  readonly ports: PortRange;
  /** Certificates of the listener, and of the connections that it opens. @default none */
  readonly tls: PlaneTls | undefined;
  /** Longest request message, in bytes (`DYN_TCP_MAX_MESSAGE_SIZE`). */
  readonly messageBytesMax: number;
  /** Time limit of dialling a caller, in milliseconds. */
  readonly dialTimeoutMs: number;
  /** Whether callers need no proof where other machines reach the listener (`STATOR_PLANE_OPEN`). */
  readonly open: boolean;
}
