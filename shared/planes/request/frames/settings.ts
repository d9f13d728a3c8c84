import type { Clock } from '../../../clock/index.ts';
import { type RequestPlaneObserver, silentObserver } from '../observer.ts';
import { PlaneSecrets } from './peer-trust.ts';

/** Settings of connections that carry frames, on any transport. */
export interface ConnectionOptions {
  readonly clock: Clock;
  /** Secret that both ends share and prove to each other first (`STATOR_PLANE_TOKEN`). @default none */
  readonly token?: string;
  /** Previous token during a rotation, which is also accepted (`STATOR_PLANE_TOKEN_PREVIOUS`). @default none */
  readonly previousToken?: string;
  /**
   * Deadline for the whole beginning of a connection: the connection itself, the proofs and HELLO_ACK. @default 5000
   */
  readonly connectTimeoutMs?: number;
  /** Deadline of PROLOGUE after OPEN. @default 5000 */
  readonly requestTimeoutMs?: number;
  /** Most connections per worker; a function uses at most 2. @default 100 */
  readonly poolSizeMax?: number;
  /**
   * Most streams in flight per connection. A caller opens another connection for more; a server refuses them. @default
   * 1024
   */
  readonly streamsPerConnectionMax?: number;
  /** Longest frame payload. @default 33554432 */
  readonly frameBytesMax?: number;
  /** Interval of pings on a connection with open streams. @default 5000 */
  readonly pingIntervalMs?: number;
  /** Silence after which a connection with open streams is dead. @default 15000 */
  readonly deadAfterMs?: number;
  /** Time after which a connection without streams is closed. @default 300000 */
  readonly idleAfterMs?: number;
  /**
   * Silence after which a connection must answer a PING within `probeTimeoutMs` before it gets a request. It is for
   * hosts that freeze between requests. @default never
   */
  readonly suspectAfterMs?: number;
  /** @default 500 */
  readonly probeTimeoutMs?: number;
  readonly observer?: RequestPlaneObserver;
}

/** Options with their defaults filled in. */
export type ConnectionSettings = Required<Omit<ConnectionOptions, 'token' | 'previousToken'>> & {
  readonly secret: PlaneSecrets | undefined;
};

/** Fills in the defaults of the options. */
export function withDefaults({ token, previousToken, ...options }: ConnectionOptions): ConnectionSettings {
  return {
    connectTimeoutMs: 5000,
    requestTimeoutMs: 5000,
    poolSizeMax: 100,
    streamsPerConnectionMax: 1024,
    frameBytesMax: 32 << 20,
    pingIntervalMs: 5000,
    deadAfterMs: 15_000,
    idleAfterMs: 300_000,
    suspectAfterMs: Number.POSITIVE_INFINITY,
    probeTimeoutMs: 500,
    observer: silentObserver,
    ...options,
    secret: token === undefined ? undefined : new PlaneSecrets(token, previousToken),
  };
}

/** Most bytes that may wait for one connection before it accepts no more. */
export function outboundBytesMax(settings: ConnectionSettings): number {
  return 4 * settings.frameBytesMax;
}

/** Longest payload accepted from a caller or worker that has not proved the token yet. */
export const GREETING_BYTES_MAX = 4096;
