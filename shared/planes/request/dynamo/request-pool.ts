import { type ServeError, workerError } from '../../../errors/index.ts';
import type { RecordPieces } from '../../record-codec.ts';
import {
  type HostAddress,
  RequestConnection,
  type RequestSettings,
  type UnackedRequest,
} from './request-connection.ts';

/**
 * Connections that carry requests, by address. All requests to an address use the first connection with room. The pool
 * opens another connection only if all are full.
 */
export class RequestPool {
  settings: RequestSettings;
  readonly #connections = new Map<string, RequestConnection[]>();
  #isClosed = false;

  constructor(settings: RequestSettings) {
    this.settings = settings;
  }

  /** Sends a request to the workers at `address`. Throws a `ServeError` if no connection can take it. */
  send(address: HostAddress, message: RecordPieces, request: UnackedRequest): void {
    if (this.#isClosed) throw workerError('CannotConnect', 'the request plane is closed');
    this.#connectionTo(address).send(message, request);
  }

  close(error: ServeError): void {
    this.#isClosed = true;
    for (const connection of [...this.#connections.values()].flat()) connection.close(error);
  }

  #connectionTo(address: HostAddress): RequestConnection {
    const { observer, poolSizeMax } = this.settings;
    const name = `${address.host}:${address.port}`;
    const connections = this.#connections.get(name) ?? [];
    const open = connections.find((connection) => connection.hasRoom);
    if (open !== undefined) return open;
    if (connections.length >= poolSizeMax) {
      throw workerError('WorkerOverloaded', `all ${connections.length} connections to ${name} are full`);
    }
    const connection = new RequestConnection(address, this.settings, (closed) => this.#closed(name, closed));
    this.#connections.set(name, [...connections, connection]);
    observer.connectionOpened?.(name);
    return connection;
  }

  #closed(name: string, connection: RequestConnection): void {
    this.settings.observer.connectionClosed?.(name);
    const others = (this.#connections.get(name) ?? []).filter((each) => each !== connection);
    if (others.length === 0) this.#connections.delete(name);
    else this.#connections.set(name, others);
  }
}
