import type { Clock } from '../clock/index.ts';

export type HealthStatus = 'ready' | 'notready';

/** Body of the status server's `/health` and `/live` (runtime-and-workers.md, section 10.1). */
export interface HealthBody {
  readonly status: HealthStatus;
  readonly uptime: { readonly secs: number; readonly nanos: number };
  readonly endpoints: Readonly<Record<string, HealthStatus>>;
}

export interface EndpointHealthOptions {
  /** What endpoints count as until they are set. @default 'notready' */
  readonly starting?: HealthStatus;
  /** Names of those that count (`DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS`); empty = all. @default all */
  readonly counting?: readonly string[];
}

/** Which endpoints of a process can serve. The process is ready when all of those that count are. */
export class EndpointHealth {
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly #endpoints = new Map<string, HealthStatus>();
  readonly #counting: ReadonlySet<string>;

  constructor(
    clock: Clock,
    endpoints: readonly string[],
    { starting = 'notready', counting = [] }: EndpointHealthOptions = {},
  ) {
    this.#clock = clock;
    this.#startedMs = clock.nowMs();
    this.#counting = new Set(counting);
    for (const endpoint of [...endpoints, ...counting]) this.#endpoints.set(endpoint, starting);
  }

  set(endpoint: string, status: HealthStatus): void {
    this.#endpoints.set(endpoint, status);
  }

  get status(): HealthStatus {
    for (const [endpoint, status] of this.#endpoints) {
      if (status === 'notready' && (this.#counting.size === 0 || this.#counting.has(endpoint))) return 'notready';
    }
    return 'ready';
  }

  report(): HealthBody {
    const uptimeMs = this.#clock.nowMs() - this.#startedMs;
    const secs = Math.floor(uptimeMs / 1000);
    const nanos = Math.floor((uptimeMs - secs * 1000) * 1e6);
    return { status: this.status, uptime: { secs, nanos }, endpoints: Object.fromEntries(this.#endpoints) };
  }
}
