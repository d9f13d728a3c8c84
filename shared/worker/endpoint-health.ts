import type { Clock } from '../clock/index.ts';

export type HealthStatus = 'ready' | 'notready';

/** Body of the status server's `/health` and `/live` (runtime-and-workers.md, section 10.1). */
export interface HealthBody {
  readonly status: HealthStatus;
  readonly uptime: { readonly secs: number; readonly nanos: number };
  readonly endpoints: Readonly<Record<string, HealthStatus>>;
}

/** Which endpoints of a process can serve. The process is ready when all of them are. */
export class EndpointHealth {
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly #endpoints = new Map<string, HealthStatus>();

  /** `starting` is what endpoints count as until they are set. Default `notready`. */
  constructor(clock: Clock, endpoints: readonly string[], starting: HealthStatus = 'notready') {
    this.#clock = clock;
    this.#startedMs = clock.nowMs();
    for (const endpoint of endpoints) this.#endpoints.set(endpoint, starting);
  }

  set(endpoint: string, status: HealthStatus): void {
    this.#endpoints.set(endpoint, status);
  }

  get status(): HealthStatus {
    for (const status of this.#endpoints.values()) if (status === 'notready') return 'notready';
    return 'ready';
  }

  report(): HealthBody {
    const uptimeMs = this.#clock.nowMs() - this.#startedMs;
    const secs = Math.floor(uptimeMs / 1000);
    const nanos = Math.floor((uptimeMs - secs * 1000) * 1e6);
    return { status: this.status, uptime: { secs, nanos }, endpoints: Object.fromEntries(this.#endpoints) };
  }
}
