import { workerError } from '../../../errors/index.ts';
import type { CallTarget, Dial } from './byte-channel.ts';
import { ClientConnection, type ConnectionOwner, type PendingOpen } from './client-connection.ts';
import { Heartbeat } from './heartbeat.ts';
import type { ConnectionSettings } from './settings.ts';

/**
 * Connections of a caller, by worker. All streams use the first connection with room, so that the tokens of an engine
 * step arrive in one frame. The pool opens another connection only when all are full.
 */
export class ConnectionPool<Target extends CallTarget> implements ConnectionOwner<Target> {
  readonly dial: Dial<Target>;
  readonly #settings: ConnectionSettings;
  readonly #heartbeat: Heartbeat;
  readonly #connections = new Map<string, ClientConnection<Target>[]>();
  #isClosed = false;

  constructor(settings: ConnectionSettings, dial: Dial<Target>) {
    this.dial = dial;
    this.#settings = settings;
    this.#heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
  }

  /** Sends the request of `pending`. Throws a `ServeError` if no connection can take it. */
  open(pending: PendingOpen<Target>): void {
    if (this.#isClosed) throw workerError('CannotConnect', 'the request plane is closed');
    this.#connectionTo(pending.target).open(pending);
  }

  closed(connection: ClientConnection<Target>): void {
    this.#settings.observer.connectionClosed?.(connection.poolKey);
    const siblings = this.#connections.get(connection.poolKey) ?? [];
    const others = siblings.filter((each) => each !== connection);
    if (others.length === 0) this.#connections.delete(connection.poolKey);
    else this.#connections.set(connection.poolKey, others);
  }

  resend(held: readonly PendingOpen<Target>[]): void {
    for (const pending of held) pending.call.guard(() => this.open(pending));
  }

  close(): void {
    this.#isClosed = true;
    const error = workerError('Disconnected', 'the request plane was closed');
    for (const connection of [...this.#connections.values()].flat()) connection.close(error);
  }

  #connectionTo(target: Target): ClientConnection<Target> {
    const connections = this.#connections.get(target.poolKey) ?? [];
    const open = connections.find((connection) => connection.hasRoom);
    if (open !== undefined) return open;
    if (connections.length >= this.#settings.poolSizeMax) {
      throw workerError('WorkerOverloaded', `all ${connections.length} connections to ${target.poolKey} are full`);
    }
    const connection = new ClientConnection(target, this.#settings, this.#heartbeat, this);
    this.#connections.set(target.poolKey, [...connections, connection]);
    this.#settings.observer.connectionOpened?.(target.poolKey);
    return connection;
  }
}
