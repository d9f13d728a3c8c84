import type { NatsConnection } from '@nats-io/nats-core';
import type { Clock, Random } from '../../clock/index.ts';

/** Identity of this process for the server. */
export type NatsIdentity =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'nkey'; readonly seed: string }
  /** Path of a credentials file (JWT and seed). */
  | { readonly kind: 'credentials'; readonly file: string };

/** PEM files, and whether the server's certificate is checked. */
export interface NatsTls {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** Accepts any certificate; for development. @default false */
  readonly isInsecure?: boolean;
}

/** Observer of a client, for the logs of its process. Implementations must not throw. */
export interface NatsObserver {
  connected(server: string): void;
  /** The connection is lost, or an attempt to make one failed. `attempt` counts failures in a row, from 1. */
  away(reason: string, attempt: number): void;
  /** The server refused something, or a receiver threw. */
  problem(problem: unknown): void;
}

/** Observes nothing. */
export const silentNatsObserver: NatsObserver = { connected() {}, away() {}, problem() {} };

/** Options of a connection to NATS. */
export interface NatsOptions {
  readonly clock: Clock;
  /** Spreads reconnections. @default systemRandom */
  readonly random?: Random;
  /** Servers: `nats://`, `tls://`, `ws://` or `wss://`; all of one kind. */
  readonly servers: readonly string[];
  readonly identity?: NatsIdentity;
  readonly tls?: NatsTls;
  /** Name in the server's list of connections. @default 'stator' */
  readonly name?: string;
  /**
   * Failed attempts in a row after which waiting calls fail; the next use tries again. For tests.
   * @default no limit
   */
  readonly attemptsMax?: number;
  /** @default 5000 */
  readonly connectTimeoutMs?: number;
  /** First wait between attempts; doubles up to 50 times as much. @default 100 */
  readonly retryMs?: number;
  /** Interval of pings to the server; two pings without an answer end the connection. @default 5000 */
  readonly pingIntervalMs?: number;
  /** Bytes of published messages that the server has not confirmed; `publish` refuses more. @default 8 MiB */
  readonly keptBytesMax?: number;
  /** Longest wait for unconfirmed messages when closing. @default 2000 */
  readonly closeTimeoutMs?: number;
  readonly observer?: NatsObserver;
}

/** The connection of a client, for streams and buckets. */
export interface NatsConnections {
  readonly clock: Clock;
  /** Longest message that the server accepts. */
  readonly messageBytesMax: number;
  /** Waits for a connection; rejects at `signal`. */
  connection(signal: AbortSignal): Promise<NatsConnection>;
  /** Runs `callback`; its errors are observed as problems. */
  guard(callback: () => void): void;
}

export interface NatsSubscription {
  unsubscribe(): void;
}

/** Called whenever the connection comes or goes. */
export interface NatsWatcher {
  connected?(): void;
  away?(reason: string): void;
}

export interface NatsStreamSettings {
  readonly name: string;
  /** Subject that it captures. */
  readonly subject: string;
  readonly replicas: number;
  readonly bytesMax: number;
  readonly ageMsMax: number;
  /** Heartbeat; a reader that hears nothing for three of these is lost. @default 5000 */
  readonly heartbeatMs?: number;
}

export interface NatsStreamFacts {
  /** Creation time as the server reports it; another value means another stream. */
  readonly createdAt: string;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** Differences from the settings, in words; an existing stream stays as it is. */
  readonly differences: readonly string[];
}

export interface NatsBucketSettings {
  readonly name: string;
  readonly replicas: number;
}
