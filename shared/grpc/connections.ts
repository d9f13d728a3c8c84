import type { ServerHttp2Session } from 'node:http2';
import type { Clock, Timer } from '../clock/index.ts';

/** How connections of a server are kept. Times in milliseconds; 0 = not. */
export interface ConnectionOptions {
  readonly clock: Clock;
  /** Bytes that a client may send on a connection before any was read. */
  readonly connectionWindowBytes: number;
  /** How often a client is pinged. */
  readonly keepaliveMs: number;
  /** How long it may take to answer a ping. */
  readonly keepaliveTimeoutMs: number;
  /** Age at which a client is asked to connect anew. */
  readonly ageMsMax: number;
  /** From 0 to 1: ages differ by a tenth, so that not all clients come back at once. */
  readonly random: () => number;
}

/** The connections of one server. */
export class Connections {
  readonly #options: ConnectionOptions;
  readonly #sessions = new Map<ServerHttp2Session, readonly Timer[]>();
  #onEmpty: (() => void) | undefined;
  #isRetired = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sessions.size;
  }

  add(session: ServerHttp2Session): void {
    const { clock, connectionWindowBytes, keepaliveMs, ageMsMax, random } = this.#options;
    const timers: Timer[] = [];
    if (keepaliveMs > 0) timers.push(clock.every(keepaliveMs, () => this.#ping(session)));
    if (ageMsMax > 0) timers.push(clock.after(ageMsMax * (0.95 + random() / 10), () => session.close()));
    this.#sessions.set(session, timers);
    session.on('error', () => {}); // `close` follows, and says as much
    session.once('close', () => {
      for (const timer of timers) timer.cancel();
      this.#sessions.delete(session);
      if (this.#sessions.size === 0) this.#onEmpty?.();
    });
    session.setLocalWindowSize(connectionWindowBytes);
    if (this.#isRetired) session.close(); // it was on its way in
  }

  /** Asks every client to go: calls under way go on. Resolves when the last connection has closed. */
  retire(): Promise<void> {
    this.#isRetired = true;
    for (const session of this.#sessions.keys()) session.close();
    if (this.#sessions.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }

  destroy(): void {
    for (const session of this.#sessions.keys()) session.destroy();
  }

  #ping(session: ServerHttp2Session): void {
    const { clock, keepaliveTimeoutMs } = this.#options;
    if (session.destroyed || session.closed) return;
    const timer = clock.after(keepaliveTimeoutMs, () => session.destroy());
    session.ping(() => timer.cancel());
  }
}
