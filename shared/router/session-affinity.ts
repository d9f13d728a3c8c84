import type { Clock } from '../clock/index.ts';

export interface SessionAffinityOptions {
  /** Idle life of a binding. */
  readonly ttlMs: number;
  /** `hard`: a session stays where it is bound. `soft`: while it may. @default 'hard' */
  readonly mode?: 'hard' | 'soft';
}

/** Where a session's requests go. */
export interface SessionTarget {
  readonly workerId: string;
  readonly dpRank: number;
}

interface Binding {
  target: SessionTarget;
  /** Requests under way; while there are any the binding does not expire. */
  requests: number;
  idleSinceMs: number;
}

const BINDINGS_MAX = 65_536;
const ID_BYTES_MAX = 256;

/** Sessions bound to the worker that took their first request. One for each phase of a model. */
export class SessionAffinity {
  readonly mode: 'hard' | 'soft';
  readonly #bindings = new Map<string, Binding>(); // the one used longest ago first
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #ttlMs: number;

  constructor({ ttlMs, mode = 'hard' }: SessionAffinityOptions, clock: Pick<Clock, 'nowMs'>) {
    this.mode = mode;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  get size(): number {
    return this.#bindings.size;
  }

  find(sessionId: string): SessionTarget | undefined {
    const binding = this.#bindings.get(sessionId);
    if (binding === undefined) return undefined;
    if (binding.requests > 0 || this.#clock.nowMs() - binding.idleSinceMs <= this.#ttlMs) return binding.target;
    this.#bindings.delete(sessionId);
    return undefined;
  }

  /** A request of the session was sent to `target`. Ids that are too long are not bound. */
  began(sessionId: string, target: SessionTarget): void {
    if (Buffer.byteLength(sessionId) > ID_BYTES_MAX) return;
    const binding = this.#bindings.get(sessionId) ?? { target, requests: 0, idleSinceMs: 0 };
    binding.target = target;
    binding.requests++;
    this.#bindings.delete(sessionId);
    this.#bindings.set(sessionId, binding);
    for (const [oldest] of this.#bindings) {
      if (this.#bindings.size <= BINDINGS_MAX) break;
      this.#bindings.delete(oldest);
    }
  }

  /** That request ended, however it did: the idle time starts anew. */
  ended(sessionId: string): void {
    const binding = this.#bindings.get(sessionId);
    if (binding === undefined) return;
    binding.requests = Math.max(0, binding.requests - 1);
    binding.idleSinceMs = this.#clock.nowMs();
  }

  /** The worker is gone or failed the session's request. */
  unbind(sessionId: string): void {
    this.#bindings.delete(sessionId);
  }
}
