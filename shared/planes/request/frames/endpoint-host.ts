import { createHash, timingSafeEqual } from 'node:crypto';
import { workerError } from '../../../errors/index.ts';
import type { PlaneHandler } from '../types.ts';
import type { HelloAck } from './records.ts';
import type { ConnectionHost, ServerConnection } from './server-connection.ts';
import type { ConnectionSettings } from './settings.ts';

/** The endpoints that a process serves and the connections of their callers, whatever carries them. */
export class EndpointHost implements ConnectionHost {
  readonly connections = new Set<ServerConnection>();
  readonly #settings: ConnectionSettings;
  readonly #instanceId: string;
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
    for (const connection of this.connections) count += connection.streamCount;
    return count;
  }

  handle(endpoint: string, handler: PlaneHandler): void {
    this.#handlers.set(endpoint, handler);
  }

  unhandle(endpoint: string): void {
    this.#handlers.delete(endpoint);
  }

  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (const connection of this.connections) connection.sendGoAway();
  }

  /** Refuses what comes and closes every connection once what is written has left. */
  close(): void {
    this.#isDraining = true;
    for (const connection of [...this.connections]) connection.close('the worker was closed');
  }

  greet(hello: Readonly<Record<string, unknown>>): HelloAck {
    const { token, frameBytesMax } = this.#settings;
    if (token !== undefined && !isSameSecret(token, hello.token)) {
      throw workerError('Unauthenticated', 'the plane token does not match');
    }
    const wanted = hello.instanceId;
    if (typeof wanted === 'string' && !this.#serves(wanted)) {
      throw workerError('WorkerUnavailable', `Server unavailable: no instance ${wanted}`);
    }
    const instanceId = typeof wanted === 'string' ? wanted : this.#instanceId;
    return { instanceId, endpoints: [...this.#handlers.keys()], maxFrame: frameBytesMax };
  }

  handlerOf(endpoint: string): PlaneHandler {
    const handler = this.#isDraining ? undefined : this.#handlers.get(endpoint);
    if (handler !== undefined) return handler;
    throw workerError('WorkerUnavailable', `Server unavailable: ${this.#isDraining ? 'draining' : endpoint}`);
  }

  closed(connection: ServerConnection): void {
    this.connections.delete(connection);
  }

  #serves(instanceId: string): boolean {
    if (instanceId === this.#instanceId) return true;
    for (const endpoint of this.#handlers.keys()) if (endpoint.startsWith(`${instanceId}/`)) return true;
    return false;
  }
}

/** Compares without telling by its duration how much was right. */
function isSameSecret(expected: string, given: unknown): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return typeof given === 'string' && timingSafeEqual(digest(expected), digest(given));
}
