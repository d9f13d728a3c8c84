import type { Msg, MsgHdrs, NatsConnection, ServerInfo, Subscription } from '@nats-io/nats-core';
import { type Clock, type Random, systemRandom } from '../../clock/index.ts';
import { forAtMost, untilAborted } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { NatsBucket } from './bucket.ts';
import { dialNats } from './dial.ts';
import { MESSAGE_BYTES_MAX } from './guarded-transport.ts';
import { beginLoading } from './library.ts';
import { KeptMessages, NatsMessage } from './messages.ts';
import { NatsStream } from './stream.ts';
import {
  type NatsBucketSettings,
  type NatsObserver,
  type NatsOptions,
  type NatsStreamSettings,
  type NatsSubscription,
  type NatsWatcher,
  silentNatsObserver,
} from './types.ts';

const RETRY_MS = 100;
const RETRY_GROWTH_MAX = 50;
const KEPT_BYTES_MAX = 8 << 20;
const CLOSE_TIMEOUT_MS = 2000;
/** Interval at which confirmations are requested while something is published; sooner if much of the room is taken. */
const CONFIRM_MS = 100;
/** Default limit of the server. */
const MESSAGE_BYTES_DEFAULT = 1 << 20;
/** Largest number of members of a cluster that are remembered. */
const LEARNED_SERVERS_MAX = 64;
const HOST_AND_PORT = /^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\]):\d{1,5}$/i;

/** A subscription, and the library's subscription on the current connection. */
interface Interest {
  readonly subject: string;
  readonly receive: (message: NatsMessage) => void;
  carrier: Subscription | undefined;
}

/** A caller that waits for a connection. */
interface Waiter {
  readonly resolve: (connection: NatsConnection) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * One connection to NATS, made when first needed and made again when lost. Only this folder knows the library behind
 * it. The client outlives every outage: subscriptions come back with the connection, and published messages are sent
 * again. Each connection is a new one of the library, which never reconnects by itself: it would lose messages
 * published meanwhile, without a count.
 *
 * | State | needed (publish, subscribe, wait) | dialled | attempt failed | connection lost | close |
 * |---|---|---|---|---|---|
 * | idle | -> dialling | - | - | - | -> closed |
 * | dialling | waits | -> connected: subscribes, sends what is kept | again after a pause, or -> idle at the limit | - | -> closed |
 * | connected | at once | - | - | -> dialling where something is subscribed or kept, else -> idle | -> closed |
 * | closed | refused | closed again | - | - | - |
 *
 * @example
 * const client = new NatsClient({ clock: systemClock, servers: ['nats://localhost:4222'] });
 * client.subscribe('greetings', (message) => console.log(message.data));
 */
export class NatsClient {
  readonly #options: NatsOptions;
  readonly #clock: Clock;
  readonly #observer: NatsObserver;
  readonly #kept: KeptMessages;
  readonly #interests = new Set<Interest>();
  readonly #watchers = new Set<NatsWatcher>();
  readonly #waiters = new Set<Waiter>();
  readonly #closing = new AbortController();
  #state: 'idle' | 'dialling' | 'connected' | 'closed' = 'idle';
  #connection: NatsConnection | undefined;
  #learnedServers: readonly string[] = [];
  #messageBytesMax = MESSAGE_BYTES_DEFAULT;
  #confirmation: 'none' | 'due' | 'asked' = 'none';
  /** Reason why the last attempt failed, or why the connection ended; undefined while there is one. */
  #absence: string | undefined;

  constructor(options: NatsOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#observer = options.observer ?? silentNatsObserver;
    this.#kept = new KeptMessages(options.keptBytesMax ?? KEPT_BYTES_MAX);
  }

  /** Servers that cannot be reached, and the reason; undefined while connected, and before the first use. */
  get absence(): string | undefined {
    return this.#absence === undefined ? undefined : `NATS at ${addressesOf(this.#options.servers)}: ${this.#absence}`;
  }

  get isConnected(): boolean {
    return this.#state === 'connected';
  }

  /** Longest message that the server accepts; the server's default limit until the first connection. */
  get messageBytesMax(): number {
    return this.#messageBytesMax;
  }

  get clock(): Clock {
    return this.#clock;
  }

  /** Resolves when there is a connection. Rejects at `signal`, when attempts are exhausted, and once closed. */
  async connected(signal: AbortSignal): Promise<void> {
    await this.connection(signal);
  }

  /** Connects now and after every outage, although no caller waits for it yet. */
  keepConnected(): void {
    this.watch({});
    this.#need();
  }

  /** Returns the JetStream stream of `settings`; it is created when it is first used. */
  stream(settings: NatsStreamSettings): NatsStream {
    beginLoading();
    return new NatsStream(this, settings);
  }

  /** Returns the object store of `settings`; it is created when an object is first put. */
  bucket(settings: NatsBucketSettings): NatsBucket {
    beginLoading();
    return new NatsBucket(this, settings);
  }

  /** Returns the library's current connection, or the next one: for this folder. */
  connection(signal: AbortSignal): Promise<NatsConnection> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    if (this.#state === 'closed') return Promise.reject(new Error('the NATS client is closed'));
    let waiter: Waiter | undefined;
    const connection = new Promise<NatsConnection>((resolve, reject) => {
      waiter = { resolve, reject };
      this.#waiters.add(waiter);
    });
    this.#need();
    return untilAborted(connection, signal).finally(() => waiter !== undefined && this.#waiters.delete(waiter));
  }

  /**
   * Sends now or not at all: returns false without a connection or for a message that is too long. Never throws.
   * @param headers of a message with a `reply`; `messageHeaders` makes them
   */
  send(subject: string, data: Uint8Array, reply?: string, headers?: MsgHdrs): boolean {
    if (this.#connection === undefined || data.length > this.#messageBytesMax) return false;
    try {
      if (reply === undefined) this.#connection.publish(subject, data);
      else this.#connection.publish(subject, data, headers === undefined ? { reply } : { reply, headers });
      return true;
    } catch (error) {
      this.#observer.problem(error); // an invalid subject, or a connection that is just closing
      return false;
    }
  }

  /**
   * Publishes a message and keeps it until the server has confirmed it. After an outage it is sent again, so it may
   * arrive twice, and everything after it too. Returns false if it is refused: too long, too much unconfirmed, or
   * closed. Never throws.
   */
  publish(subject: string, data: Uint8Array): boolean {
    if (this.#state === 'closed' || data.length > this.#messageBytesMax) return false;
    if (!this.#kept.add({ subject, data })) return false;
    if (this.#connection === undefined) this.#need();
    else this.#hand(this.#connection, subject, data);
    return true;
  }

  /**
   * Receives messages of `subject` (wildcards allowed) from now on, through outages. An error of `receive` is observed
   * as a problem.
   */
  subscribe(subject: string, receive: (message: NatsMessage) => void): NatsSubscription {
    const interest: Interest = { subject, receive, carrier: undefined };
    this.#interests.add(interest);
    if (this.#connection === undefined) this.#need();
    else this.#carry(interest, this.#connection);
    return {
      unsubscribe: () => {
        if (!this.#interests.delete(interest)) return;
        if (interest.carrier?.isClosed() === false) interest.carrier.unsubscribe();
      },
    };
  }

  /** Calls `watcher` whenever the connection comes or goes, until the returned function is called. */
  watch(watcher: NatsWatcher): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Resolves when the server has received everything sent so far. */
  async flush(signal: AbortSignal): Promise<void> {
    const connection = await this.connection(signal);
    await untilAborted(confirmed(connection), signal);
  }

  /** Runs a callback of the owner. Its errors must not reach the library's reader, which would stop for good. */
  guard(callback: () => void): void {
    try {
      callback();
    } catch (problem) {
      this.#observer.problem(problem);
    }
  }

  /** Closes once published messages are confirmed, or at its deadline. Idempotent. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    const connection = this.#connection;
    if (connection !== undefined) {
      const deadline = { clock: this.#clock, timeoutMs: this.#options.closeTimeoutMs ?? CLOSE_TIMEOUT_MS };
      // then messages are lost, and subscribers see the gap
      await forAtMost(deadline, () => confirmed(connection)).catch(() => {});
    }
    this.#state = 'closed';
    this.#closing.abort();
    this.#connection = undefined;
    this.#interests.clear();
    const error = new Error('the NATS client is closed');
    for (const waiter of [...this.#waiters]) waiter.reject(error);
    await connection?.close();
    for (const watcher of [...this.#watchers]) this.guard(() => watcher.away?.('closed'));
    this.#watchers.clear();
  }

  #need(): void {
    if (this.#state !== 'idle') return;
    this.#state = 'dialling';
    this.#dial().catch((error: unknown) => this.#observer.problem(error));
  }

  /** Attempts until one succeeds, the limit is reached or the client is closed. Each failure is observed. */
  async #dial(): Promise<void> {
    const { attemptsMax = Number.POSITIVE_INFINITY } = this.#options;
    for (let attempt = 1; this.#state === 'dialling'; attempt++) {
      try {
        const connection = await dialNats(this.#options, [...this.#options.servers, ...this.#learnedServers]);
        await this.#adopt(connection);
        return;
      } catch (error) {
        if (this.#state !== 'dialling') return;
        this.#absence = reasonOf(error);
        this.#observer.away(this.#absence, attempt);
        if (attempt >= attemptsMax) {
          this.#state = 'idle';
          for (const waiter of [...this.#waiters]) waiter.reject(error);
          return;
        }
      }
      // closed: the loop ends
      await this.#clock.sleep(this.#pauseMs(attempt - 1), this.#closing.signal).catch(() => {});
    }
  }

  async #adopt(connection: NatsConnection): Promise<void> {
    if (this.#state === 'closed') {
      await connection.close();
      return;
    }
    this.#state = 'connected';
    this.#connection = connection;
    this.#absence = undefined;
    this.#messageBytesMax = messageBytesIn(connection.info);
    this.#learnServers(connection);
    this.#observeStatus(connection);
    connection.closed().then(
      (error) => this.#lost(connection, error),
      (error: unknown) => this.#lost(connection, error),
    );
    this.#observer.connected(connection.getServer());
    for (const interest of this.#interests) this.#carry(interest, connection);
    for (const { subject, data } of this.#kept) this.#hand(connection, subject, data);
    for (const waiter of [...this.#waiters]) waiter.resolve(connection);
    for (const watcher of [...this.#watchers]) this.guard(() => watcher.connected?.());
  }

  /** Returns members of the cluster that the configuration does not name. */
  #learnServers(connection: NatsConnection): void {
    const scheme = this.#options.servers[0]?.split('://')[0] ?? 'nats';
    const isWebSocket = scheme.startsWith('ws'); // the members' addresses are those of the other port
    this.#learnedServers = isWebSocket ? [] : serversIn(connection.info).map((address) => `${scheme}://${address}`);
  }

  #observeStatus(connection: NatsConnection): void {
    const follow = async (): Promise<void> => {
      for await (const status of connection.status()) if (status.type === 'error') this.#observer.problem(status.error);
    };
    follow().catch((error: unknown) => this.#observer.problem(error));
  }

  #lost(connection: NatsConnection, error: unknown): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#state = 'idle';
    this.#confirmation = 'none';
    for (const interest of this.#interests) interest.carrier = undefined;
    const reason = error === undefined ? 'the server closed the connection' : reasonOf(error);
    this.#absence = reason;
    this.#observer.away(reason, 0);
    for (const watcher of [...this.#watchers]) this.guard(() => watcher.away?.(reason));
    const isNeeded = this.#interests.size > 0 || this.#kept.count > 0 || this.#watchers.size > 0;
    if (isNeeded) this.#clock.after(this.#pauseMs(0), () => this.#need());
  }

  #pauseMs(failures: number): number {
    const { retryMs, random = systemRandom } = this.#options;
    return retryPauseMs(failures, random, retryMs);
  }

  #carry(interest: Interest, connection: NatsConnection): void {
    const callback = (error: Error | null, message: Msg): void => {
      if (error !== null)
        this.#observer.problem(error); // e.g. not permitted
      else this.guard(() => interest.receive(new NatsMessage(message)));
    };
    interest.carrier = connection.subscribe(interest.subject, { callback });
  }

  /** Hands a kept message to the connection; if that fails, it stays kept and goes out with the next connection. */
  #hand(connection: NatsConnection, subject: string, data: Uint8Array): void {
    this.guard(() => connection.publish(subject, data));
    if (this.#confirmation === 'asked') return;
    const isPressing = this.#kept.bytes > (this.#options.keptBytesMax ?? KEPT_BYTES_MAX) / 4;
    if (isPressing) this.#confirm(connection);
    else if (this.#confirmation === 'none') {
      this.#confirmation = 'due';
      this.#clock.after(CONFIRM_MS, () => this.#confirm(connection));
    }
  }

  /** Asks the server whether it has everything so far, and if so forgets those messages. */
  #confirm(connection: NatsConnection): void {
    if (this.#connection !== connection || this.#confirmation === 'asked') return;
    this.#confirmation = 'asked';
    const { count } = this.#kept;
    confirmed(connection).then(
      () => {
        if (this.#connection !== connection) return;
        this.#confirmation = 'none';
        this.#kept.confirm(count);
        if (this.#kept.count === 0) return;
        this.#confirmation = 'due';
        this.#clock.after(CONFIRM_MS, () => this.#confirm(connection));
      },
      () => {}, // the connection is gone, and the kept messages go out with the next one
    );
  }
}

/**
 * Returns the time until the next attempt after this many failures in a row. It doubles up to 50 times the first, and
 * is spread around that, so that a fleet does not come back in one moment.
 */
export function retryPauseMs(failures: number, random: Random, firstMs: number = RETRY_MS): number {
  return firstMs * Math.min(2 ** failures, RETRY_GROWTH_MAX) * (0.5 + random.next());
}

/** Returns addresses of servers as they may be shown: without credentials. */
export function addressesOf(servers: readonly string[]): string {
  return servers.map((server) => `${new URL(server).protocol}//${new URL(server).host}`).join(', ');
}

/** Checks what a server reports about itself, which may be wrong. */
function messageBytesIn(info: ServerInfo | undefined): number {
  const bytes: unknown = info?.max_payload;
  return Number.isSafeInteger(bytes) && Number(bytes) > 0
    ? Math.min(Number(bytes), MESSAGE_BYTES_MAX)
    : MESSAGE_BYTES_DEFAULT;
}

/** Drops invalid addresses: one of them would end every later attempt. */
function serversIn(info: ServerInfo | undefined): readonly string[] {
  const urls: unknown = info?.connect_urls;
  if (!Array.isArray(urls)) return [];
  return urls.filter((url) => typeof url === 'string' && isAddress(url)).slice(0, LEARNED_SERVERS_MAX);
}

function isAddress(text: string): boolean {
  return HOST_AND_PORT.test(text) && URL.canParse(`nats://${text}`);
}

/** Resolves at the server's answer to a ping after everything sent; rejects if the connection is lost first. */
async function confirmed(connection: NatsConnection): Promise<void> {
  const isAnswered = await Promise.race([connection.flush().then(() => true), connection.closed().then(() => false)]);
  if (!isAnswered) throw new Error('the connection to NATS was lost');
}
