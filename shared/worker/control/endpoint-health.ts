import type { Clock } from '../../clock/index.ts';

export type HealthStatus = 'ready' | 'notready';

/** Body of the status server's `/health` and `/live`. Only the status codes of the two differ. */
export interface HealthBody {
  readonly status: HealthStatus;
  readonly uptime: { readonly secs: number; readonly nanos: number };
  /** Status of each endpoint. An endpoint that several workers serve is ready when all of them are ready. */
  readonly endpoints: Readonly<Record<string, HealthStatus>>;
  /**
   * Reason why expected KV events of the engine do not arrive; the worker still serves. It is absent if they arrive, or
   * were not requested.
   */
  readonly kv_events?: { readonly status: 'missing'; readonly reason: string };
  /** Status of each endpoint by worker, in a process of several; the key is the instance id. */
  readonly workers?: Readonly<Record<string, Readonly<Record<string, HealthStatus>>>>;
  /** Brokers that the process needs and cannot reach, each with the reason; absent if it reaches all. */
  readonly away?: readonly string[];
}

export interface EndpointHealthOptions {
  /** Status of endpoints until it is set. @default 'notready' */
  readonly starting?: HealthStatus;
  /**
   * Names of the endpoints that decide readiness (`DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS`); empty = all. @default all
   */
  readonly counting?: readonly string[];
  /** Number of workers in the process; each must report that it is ready. @default 1 */
  readonly workers?: number;
  /** Returns the brokers that the process needs and cannot reach. @default none */
  readonly absences?: () => readonly string[];
}

/** The health of a process's endpoints. The process is ready when all endpoints that decide readiness are ready. */
export class EndpointHealth {
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly #starting: HealthStatus;
  readonly #workersMin: number;
  readonly #absences: () => readonly string[];
  /** Status by endpoint; as many entries as there are names. */
  readonly #endpoints = new Map<string, HealthStatus>();
  /** Status that each worker reported, by its instance id. */
  readonly #workers = new Map<string, Map<string, HealthStatus>>();
  readonly #counting: ReadonlySet<string>;
  /** Workers that do not serve because they drain or sleep. */
  readonly #atRest = new Set<string>();
  /** Reasons why KV events are missing, by worker. */
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

  /**
   * Sets the status of an endpoint. @param worker instance id of the worker; the only one of a process needs no name
   */
  set(endpoint: string, status: HealthStatus, worker = ''): void {
    const own = this.#workers.get(worker) ?? new Map<string, HealthStatus>();
    this.#workers.set(worker, own.set(endpoint, status));
    this.#endpoints.set(endpoint, this.#statusOf(endpoint));
  }

  /** Sets why KV events are missing. @param why undefined = the KV events of that worker's engine come */
  setEventFault(why: string | undefined, worker = ''): void {
    if (why === undefined) this.#eventFaults.delete(worker);
    else this.#eventFaults.set(worker, why);
  }

  /** Sets whether a worker does not serve by order: it drains or sleeps. */
  setAtRest(isAtRest: boolean, worker = ''): void {
    if (isAtRest) this.#atRest.add(worker);
    else this.#atRest.delete(worker);
  }

  get status(): HealthStatus {
    return this.#notReady.length === 0 ? 'ready' : 'notready';
  }

  /**
   * Whether a restart of the process would help nothing: every worker serves, drains or sleeps. A restart would cut off
   * the streams of a worker that drains.
   */
  get isLive(): boolean {
    return this.#notReady.every((endpoint) => {
      const own = [...this.#workers].filter(([, statuses]) => statuses.has(endpoint));
      const isServed = ([id, statuses]: (typeof own)[number]): boolean =>
        this.#atRest.has(id) || statuses.get(endpoint) === 'ready';
      return own.length >= this.#workersMin && own.every(isServed);
    });
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

  /** Endpoints that decide readiness and are not ready. */
  get #notReady(): readonly string[] {
    const counts = (endpoint: string): boolean => this.#counting.size === 0 || this.#counting.has(endpoint);
    return [...this.#endpoints].flatMap(([name, status]) => (status === 'notready' && counts(name) ? [name] : []));
  }

  #statusOf(endpoint: string): HealthStatus {
    const said = [...this.#workers.values()].flatMap((own) => own.get(endpoint) ?? []);
    if (said.length < this.#workersMin) said.push(this.#starting);
    return said.every((status) => status === 'ready') ? 'ready' : 'notready';
  }
}
