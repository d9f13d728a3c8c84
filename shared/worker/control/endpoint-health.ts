import type { Clock } from '../../clock/index.ts';

export type HealthStatus = 'ready' | 'notready';

/** Body of the status server's `/health` and `/live`. */
export interface HealthBody {
  readonly status: HealthStatus;
  readonly uptime: { readonly secs: number; readonly nanos: number };
  /** An endpoint that several workers serve is ready when all of them say so. */
  readonly endpoints: Readonly<Record<string, HealthStatus>>;
  /** Why KV events that an engine was asked for do not come; it serves all the same. Absent = they come, or were not asked for. */
  readonly kv_events?: { readonly status: 'missing'; readonly reason: string };
  /** The same of each worker by its instance id, in a process of several. */
  readonly workers?: Readonly<Record<string, Readonly<Record<string, HealthStatus>>>>;
  /** Brokers that the process needs and cannot reach, each with the reason; left out while there are none. */
  readonly away?: readonly string[];
}

export interface EndpointHealthOptions {
  /** What endpoints count as until they are set. @default 'notready' */
  readonly starting?: HealthStatus;
  /** Names of those that count (`DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS`); empty = all. @default all */
  readonly counting?: readonly string[];
  /** Workers of the process; each has to say that it is ready. @default 1 */
  readonly workers?: number;
  /** Brokers that the process needs and cannot reach. @default none */
  readonly absences?: () => readonly string[];
}

/** Which endpoints of a process can serve. The process is ready when all of those that count are. */
export class EndpointHealth {
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly #starting: HealthStatus;
  readonly #workersMin: number;
  readonly #absences: () => readonly string[];
  /** By endpoint; as many as there are names. */
  readonly #endpoints = new Map<string, HealthStatus>();
  /** What each worker said, by its instance id. */
  readonly #workers = new Map<string, Map<string, HealthStatus>>();
  readonly #counting: ReadonlySet<string>;
  /** Of each worker whose KV events are missing, why. */
  readonly #eventFaults = new Map<string, string>();

  constructor(
    clock: Clock,
    endpoints: readonly string[],
    { starting = 'notready', counting = [], workers = 1, absences = () => [] }: EndpointHealthOptions = {},
  ) {
    this.#clock = clock;
    this.#startedMs = clock.nowMs();
    this.#starting = starting;
    this.#workersMin = workers;
    this.#absences = absences;
    this.#counting = new Set(counting);
    for (const endpoint of [...endpoints, ...counting]) this.#endpoints.set(endpoint, starting);
  }

  /** @param worker instance id of the one that says so; the only one of a process need not be named */
  set(endpoint: string, status: HealthStatus, worker = ''): void {
    const own = this.#workers.get(worker) ?? new Map<string, HealthStatus>();
    this.#workers.set(worker, own.set(endpoint, status));
    this.#endpoints.set(endpoint, this.#statusOf(endpoint));
  }

  /** @param why undefined = the KV events of that worker's engine come */
  setEventFault(why: string | undefined, worker = ''): void {
    if (why === undefined) this.#eventFaults.delete(worker);
    else this.#eventFaults.set(worker, why);
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
    const endpoints = Object.fromEntries(this.#endpoints);
    const each = [...this.#workers].map(([id, own]) => [id, Object.fromEntries(own)] as const);
    const workers = this.#workersMin > 1 ? { workers: Object.fromEntries(each) } : {};
    const [reason] = this.#eventFaults.values();
    const events = reason === undefined ? {} : { kv_events: { status: 'missing', reason } as const };
    const away = this.#absences();
    const absent = away.length > 0 ? { away } : {};
    return { status: this.status, uptime: { secs, nanos }, endpoints, ...events, ...workers, ...absent };
  }

  #statusOf(endpoint: string): HealthStatus {
    const said = [...this.#workers.values()].flatMap((own) => own.get(endpoint) ?? []);
    if (said.length < this.#workersMin) said.push(this.#starting);
    return said.every((status) => status === 'ready') ? 'ready' : 'notready';
  }
}
