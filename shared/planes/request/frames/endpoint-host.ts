import { workerError } from '../../../errors/index.ts';
import type { PlaneHandler } from '../types.ts';
import type { HelloAck, ReadHello } from './records.ts';
import type { ConnectionHost, ServerConnection } from './server-connection.ts';
import type { ConnectionSettings } from './settings.ts';
import { Unproven } from './unproven.ts';

/**
 * Endpoints that a process serves, and the connections of their callers. This part of a server is the same for every
 * transport.
 */
export abstract class EndpointHost implements ConnectionHost {
  readonly #connections = new Set<ServerConnection>();
  readonly #settings: ConnectionSettings;
  readonly #instanceId: string;
  readonly #unproven = new Unproven<ServerConnection>((connection) =>
    connection.close('too many callers that have proved nothing'),
  );
  readonly #handlers = new Map<string, PlaneHandler>();
  #isDraining = false;

  constructor(settings: ConnectionSettings, instanceId: string) {
    this.#settings = settings;
    this.#instanceId = instanceId;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  get activeStreams(): number {
    let count = 0;
    for (const connection of this.#connections) count += connection.streamCount;
    return count;
  }

  handle(endpoint: string, handler: PlaneHandler): void {
    this.#handlers.set(endpoint, handler);
  }

  /** Resolves at once, unless the host must first register its endpoints with a broker. */
  reachable(_signal: AbortSignal): Promise<void> {
    return Promise.resolve();
  }

  unhandle(endpoint: string): void {
    this.#handlers.delete(endpoint);
  }

  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (const connection of this.#connections) connection.sendGoAway();
  }

  /** Refuses new requests and closes every connection once the written bytes have left. */
  protected closeConnections(): void {
    this.#isDraining = true;
    for (const connection of [...this.#connections]) connection.close('the worker was closed');
  }

  /** Adds a connection whose caller has not proved the token yet. If there are too many, closes the oldest one. */
  protected add(connection: ServerConnection): void {
    this.#connections.add(connection);
    this.#unproven.add(connection);
  }

  greet(connection: ServerConnection, { instanceId: wanted }: ReadHello): HelloAck {
    if (wanted !== undefined && !this.#serves(wanted)) {
      throw workerError('WorkerUnavailable', `Server unavailable: no instance ${wanted}`);
    }
    this.#unproven.delete(connection);
    const { frameBytesMax } = this.#settings;
    return { instanceId: wanted ?? this.#instanceId, endpoints: [...this.#handlers.keys()], maxFrame: frameBytesMax };
  }

  handlerOf(endpoint: string): PlaneHandler {
    const handler = this.#isDraining ? undefined : this.#handlers.get(endpoint);
    if (handler !== undefined) return handler;
    throw workerError('WorkerUnavailable', `Server unavailable: ${this.#isDraining ? 'draining' : endpoint}`);
  }

  closed(connection: ServerConnection): void {
    this.#connections.delete(connection);
    this.#unproven.delete(connection);
  }

  #serves(instanceId: string): boolean {
    if (instanceId === this.#instanceId) return true;
    for (const endpoint of this.#handlers.keys()) if (endpoint.startsWith(`${instanceId}/`)) return true;
    return false;
  }
}
