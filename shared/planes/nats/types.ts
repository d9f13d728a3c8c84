import type { Clock, Random } from '../../clock/index.ts';

/** Who this process is to the server. */
export type NatsIdentity =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'nkey'; readonly seed: string }
  /** Path of a credentials file (JWT and seed). */
  | { readonly kind: 'credentials'; readonly file: string };

/** PEM files, and whether the server's certificate counts. */
export interface NatsTls {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** Accepts any certificate; for development. @default false */
  readonly isInsecure?: boolean;
}

/** What a client tells the logs of its process. Implementations must not throw. */
export interface NatsObserver {
  connected(server: string): void;
  /** The connection is lost, or an attempt to make one failed. `attempt` counts failures in a row, from 1. */
  away(reason: string, attempt: number): void;
  /** The server refused something, or a receiver threw. */
  problem(problem: unknown): void;
}

/** Observes nothing. */
export const silentNatsObserver: NatsObserver = { connected() {}, away() {}, problem() {} };

/** How to reach NATS. */
export interface NatsOptions {
  readonly clock: Clock;
  /** Spreads reconnections. @default systemRandom */
  readonly random?: Random;
  /** `nats://`, `tls://`, `ws://` or `wss://`; all of one kind. */
  readonly servers: readonly string[];
  readonly identity?: NatsIdentity;
  readonly tls?: NatsTls;
  /** Shown in the server's list of connections. @default 'stator' */
  readonly name?: string;
  /**
   * Failed attempts in a row after which waiting callers are told; the next use tries again. For functions, which must not
   * try while frozen. @default no limit
   */
  readonly attemptsMax?: number;
  /** @default 5000 */
  readonly connectTimeoutMs?: number;
  /** First wait between attempts; doubles up to 50 times as much. @default 100 */
  readonly retryMs?: number;
  /** The server is pinged this often; two pings without an answer end the connection. @default 5000 */
  readonly pingIntervalMs?: number;
  /** Bytes of published messages that the server has not confirmed; `publish` refuses more. @default 8 MiB */
  readonly keptBytesMax?: number;
  /** Longest wait for what is not confirmed when closing. @default 2000 */
  readonly closeTimeoutMs?: number;
  readonly observer?: NatsObserver;
}

/** A received message. */
export interface NatsMessage {
  readonly subject: string;
  /** Where an answer goes; '' = nowhere. */
  readonly reply: string;
  readonly data: Uint8Array;
  /** Code of a message from the server itself, e.g. 503 = nobody listens where a message of ours went; else undefined. */
  readonly status: number | undefined;
  /** The words that come with `status`. */
  readonly statusText: string;
}

export interface NatsSubscription {
  unsubscribe(): void;
}

/** Told whenever the connection comes or goes. */
export interface NatsWatcher {
  connected?(): void;
  away?(reason: string): void;
}

/**
 * One connection to NATS, made when first needed and made again when lost. It outlives every outage: subscriptions come back
 * with the connection, and published messages are sent again.
 */
export interface NatsClient {
  readonly isConnected: boolean;
  /** Longest message that the server takes; the server's usual limit until one was seen. */
  readonly messageBytesMax: number;
  /** Resolves when there is a connection. Rejects at `signal`, when attempts are exhausted, and once closed. */
  connected(signal: AbortSignal): Promise<void>;
  /** Sends now or not at all: false without a connection or for a message that is too long. Never throws. */
  send(subject: string, data: Uint8Array, reply?: string): boolean;
  /**
   * Publishes and keeps the message until the server has confirmed it: after an outage it is sent again, so it may arrive
   * twice, and everything after it, too. False = refused: too long, too much unconfirmed, or closed. Never throws.
   */
  publish(subject: string, data: Uint8Array): boolean;
  /** Hears `subject` (wildcards allowed) from now on, through outages. What `receive` throws is observed as a problem. */
  subscribe(subject: string, receive: (message: NatsMessage) => void): NatsSubscription;
  /** Tells `watcher` of every coming and going until the returned function is called. */
  watch(watcher: NatsWatcher): () => void;
  /** Resolves when the server has taken everything sent so far. */
  flush(signal: AbortSignal): Promise<void>;
  /** The JetStream stream of `settings`; nothing is made until it is used. */
  stream(settings: NatsStreamSettings): NatsStream;
  /** The object store of `settings`; nothing is made until something is put. */
  bucket(settings: NatsBucketSettings): NatsBucket;
  /** Closes once what was published is confirmed, or at its deadline. Idempotent. */
  close(): Promise<void>;
}

export interface NatsStreamSettings {
  readonly name: string;
  /** The subject that it captures. */
  readonly subject: string;
  readonly replicas: number;
  readonly bytesMax: number;
  readonly ageMsMax: number;
  /** A reader that hears nothing for three of these is lost. @default 5000 */
  readonly heartbeatMs?: number;
}

export interface NatsStreamFacts {
  /** As the server says it; another value means another stream. */
  readonly createdAt: string;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** Where it differs from the settings, in words; streams that exist are left as they are. */
  readonly differences: readonly string[];
}

/** What a reader is told. None may throw. */
export interface NatsStreamReceiver {
  message(sequence: number, data: Uint8Array): void;
  /** The batch that `next` asked for is over. `isLast`: there was nothing behind it. */
  batchEnded(isLast: boolean): void;
  /** This reader will hear nothing more. Told once, and not after `close`. */
  lost(reason: string): void;
}

/** An ordered reader of a stream. */
export interface NatsStreamReader {
  /** Asks for the next batch; at most one at a time. `isWaiting`: waits for messages yet to come. */
  next(isWaiting: boolean): void;
  close(): void;
}

/** A JetStream stream. Calls wait for a connection; they reject with the signal's reason when it aborts. */
export interface NatsStream {
  /** Makes the stream when there is none. Rejects when it cannot be made, or when its name belongs to other subjects. */
  facts(signal: AbortSignal): Promise<NatsStreamFacts>;
  /** Reads from `fromSequence`, or from the first message kept. Rejects when there is no stream. */
  read(fromSequence: number, receiver: NatsStreamReceiver, signal: AbortSignal): Promise<NatsStreamReader>;
  /** Forgets messages up to and including `sequence`. */
  purge(sequence: number, signal: AbortSignal): Promise<void>;
}

export interface NatsBucketSettings {
  readonly name: string;
  readonly replicas: number;
}

/** Large objects. Calls wait for a connection; they reject with the signal's reason when it aborts. */
export interface NatsBucket {
  /** Rejects when there is an object of that name. */
  put(name: string, chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** Undefined when there is none. Rejects when what is stored is not what was put. */
  get(name: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
  list(signal: AbortSignal): Promise<readonly string[]>;
  remove(name: string, signal: AbortSignal): Promise<void>;
}
