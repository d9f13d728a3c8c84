import type { Http2SecureServer, Http2Server, Http2Session, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { Clock, Random, Timer } from '../clock/index.ts';
import { connectionArrived, networkOf } from '../concurrency/index.ts';
import type { LimitName } from '../errors/index.ts';
import { Connection } from './connection.ts';

/** Interval between checks for clients that keep the server waiting, in milliseconds. */
const CHECK_MS = 1000;
/** Most connections that are compared when one must make room. */
const LOOKED_AT_MAX = 1024;
const MEBIBYTE = 1024 * 1024;

/** Limits for how long clients may take, and how much they may send. */
export interface ConnectionLimits {
  /** Time from a connection to its first call, and from a call to its message, in milliseconds. @default 30,000 */
  readonly patienceMs?: number | undefined;
  /** Called with the name of a limit when a client exceeds it. @default no count */
  readonly onLimit?: ((limit: LimitName) => void) | undefined;
  /** Bytes that a client may send on a stream before the server reads any. @default 1 MiB */
  readonly streamWindowBytes?: number | undefined;
  /** The same until a call of the connection is accepted. @default `streamWindowBytes` */
  readonly firstWindowBytes?: number | undefined;
  /** Bytes that a client may send on a connection before the server reads any. @default 1 MiB */
  readonly connectionWindowBytes?: number | undefined;
  /** Interval between pings to a client, in milliseconds; 0 = none. @default 0 */
  readonly keepaliveMs?: number | undefined;
  /** Time that a client has to answer a ping, in milliseconds. @default 20,000 */
  readonly keepaliveTimeoutMs?: number | undefined;
  /** Age at which the server asks the client of a connection to leave, in milliseconds; 0 = no limit. @default 0 */
  readonly connectionAgeMsMax?: number | undefined;
}

interface ConnectionsOptions extends ConnectionLimits {
  readonly clock: Clock;
  readonly random: Pick<Random, 'next'>;
  readonly connectionsMax: number;
}

/**
 * The connections of one server, from the moment that it accepts them, before their handshake. Each must make a call in
 * time. When a new connection exceeds `connectionsMax`, the server ends a connection without an accepted call. It
 * compares those that have had no call for the longest time, and ends one of the address with the most connections. So
 * one address, such as a load balancer, may hold all connections until other addresses come.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #bySocket = new Map<string, Connection>();
  readonly #bySession = new WeakMap<Http2Session, Connection>();
  readonly #countByAddress = new Map<string, number>();
  /** Connections without an accepted call. The one that has been so for the longest time comes first. */
  readonly #quiet = new Set<Connection>();
  #checking: Timer | undefined;
  #onEmpty: (() => void) | undefined;
  #isRetired = false;

  constructor(server: Http2Server | Http2SecureServer, options: ConnectionsOptions) {
    this.#options = options;
    server.prependListener('connection', (socket: Socket) => this.#accepted(socket)); // before Node makes its session
    server.on('session', (session) => this.#began(session));
  }

  /** Returns the connection of a stream; undefined if it is closed. */
  of({ session }: ServerHttp2Stream): Connection | undefined {
    return session === undefined ? undefined : this.#bySession.get(session);
  }

  /** Asks every client to leave (GOAWAY). Calls under way continue. Resolves when the last connection has closed. */
  retire(): Promise<void> {
    this.#isRetired = true;
    for (const connection of this.#bySocket.values()) connection.retire();
    if (this.#bySocket.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }

  destroy(): void {
    for (const connection of this.#bySocket.values()) connection.destroy();
  }

  #accepted(socket: Socket): void {
    connectionArrived();
    const { clock, connectionsMax, streamWindowBytes = MEBIBYTE, firstWindowBytes = streamWindowBytes } = this.#options;
    const key = keyOf(socket);
    if (key === undefined) return; // the socket has closed already
    const connection = new Connection(socket, networkOf(socket), clock.nowMs(), {
      windowBytes: firstWindowBytes < streamWindowBytes ? streamWindowBytes : undefined,
      onQuiet: (isQuiet) => {
        if (!isQuiet) this.#quiet.delete(connection);
        else if (this.#bySocket.has(key)) this.#quiet.add(connection);
      },
    });
    this.#bySocket.set(key, connection);
    this.#count(connection.address, 1);
    socket.once('close', () => this.#closed(key, connection));
    this.#checking ??= clock.every(CHECK_MS, () => this.#checkProgress());
    if (this.#bySocket.size > connectionsMax) this.#makeRoom(connection);
    this.#quiet.add(connection);
  }

  #began(session: ServerHttp2Session): void {
    const { clock, random, connectionWindowBytes = MEBIBYTE, keepaliveMs = 0, connectionAgeMsMax = 0 } = this.#options;
    session.on('error', () => {}); // `close` follows and is handled
    const key = keyOf(session.socket);
    const connection = key === undefined ? undefined : this.#bySocket.get(key);
    if (connection === undefined) {
      session.destroy();
      return;
    }
    this.#bySession.set(session, connection);
    connection.began(session);
    const timers: Timer[] = [];
    if (keepaliveMs > 0) timers.push(clock.every(keepaliveMs, () => this.#ping(session)));
    if (connectionAgeMsMax > 0) {
      const ageMs = connectionAgeMsMax * (0.95 + random.next() / 10); // so that not all clients come back at once
      timers.push(clock.after(ageMs, () => connection.retire()));
    }
    session.once('close', () => {
      for (const timer of timers) timer.cancel();
    });
    session.setLocalWindowSize(connectionWindowBytes);
    if (this.#isRetired) connection.retire(); // its handshake was under way when the server began to close
  }

  #closed(key: string, connection: Connection): void {
    this.#bySocket.delete(key);
    this.#quiet.delete(connection);
    this.#count(connection.address, -1);
    if (this.#bySocket.size > 0) return;
    this.#checking?.cancel();
    this.#checking = undefined;
    this.#onEmpty?.();
  }

  #checkProgress(): void {
    const { clock, patienceMs = 30_000 } = this.#options;
    const nowMs = clock.nowMs();
    for (const connection of this.#bySocket.values()) connection.checkProgress(nowMs, patienceMs);
  }

  /**
   * Ends a connection to make room for `newcomer`. If the address of `newcomer` has the most, that is `newcomer`
   * itself.
   */
  #makeRoom(newcomer: Connection): void {
    this.#options.onLimit?.('grpc_connections');
    const countOf = ({ address }: Connection): number => this.#countByAddress.get(address) ?? 0;
    let most: Connection | undefined;
    let lookedAt = 0;
    for (const connection of this.#quiet) {
      if (++lookedAt > LOOKED_AT_MAX) break;
      if (most === undefined || countOf(connection) > countOf(most)) most = connection;
      else if (countOf(connection) === countOf(most) && most.isTrusted && !connection.isTrusted) most = connection;
    }
    const isFair = most !== undefined && countOf(most) >= countOf(newcomer);
    const ended = most !== undefined && isFair ? most : newcomer;
    this.#quiet.delete(ended);
    if (ended === newcomer)
      queueMicrotask(() => ended.destroy()); // Node makes its session first
    else ended.end();
  }

  #count(address: string, more: 1 | -1): void {
    const count = (this.#countByAddress.get(address) ?? 0) + more;
    if (count === 0) this.#countByAddress.delete(address);
    else this.#countByAddress.set(address, count);
  }

  #ping(session: ServerHttp2Session): void {
    const { clock, keepaliveTimeoutMs = 20_000 } = this.#options;
    if (session.destroyed || session.closed) return;
    const timer = clock.after(keepaliveTimeoutMs, () => this.#bySession.get(session)?.destroy());
    session.ping(() => timer.cancel());
  }
}

/** Returns the address and port of the other end; undefined if the socket is closed. */
function keyOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort}`;
}
