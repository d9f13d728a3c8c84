import type { Clock, Timer } from '../clock/index.ts';
import type { Discovery, FleetLoads, Watch } from '../discovery/index.ts';
import type { WorkerPool } from '../router/index.ts';
import { type KvPool, poolName } from '../router/scheduler/index.ts';
import { REPORT_AGE_S, UnattributedLoad } from '../router/state/index.ts';
import type { RouterMetrics } from '../telemetry/index.ts';

export interface PeerLoadsOptions {
  readonly clock: Clock;
  readonly discovery: Pick<Discovery, 'watchLoads'>;
  /** Worker sets of the router. */
  pools(): readonly KvPool[];
  readonly metrics: Pick<RouterMetrics, 'unattributedRequests'>;
}

const TICKS_A_SECOND = 4;
const SECOND_MS = 1000;

/** The load that others bring to the workers of this router, by what the workers say with their leases. */
export class PeerLoads {
  readonly #options: PeerLoadsOptions;
  readonly #views = new Map<string, { readonly of: KvPool; readonly load: UnattributedLoad }>(); // by worker set
  readonly #timer: Timer;
  readonly #watch: Watch;
  #said: FleetLoads = new Map();
  #isNew = false;
  /** Seconds since the last reading. */
  #ageS = 0;
  #ticks = 0;

  constructor(options: PeerLoadsOptions) {
    this.#options = options;
    this.#watch = options.discovery.watchLoads((said) => {
      this.#said = said;
      this.#isNew = true;
    });
    this.#timer = options.clock.every(SECOND_MS / TICKS_A_SECOND, () => this.#tick());
  }

  /** This router, or one that it hears of, has booked a request. */
  booked(pool: WorkerPool, workerId: string, dpRank: number): void {
    this.#views.get(poolName(pool))?.load.booked(workerId, dpRank);
  }

  close(): void {
    this.#watch.close();
    this.#timer.cancel();
  }

  /** Looks when something new was read, and each second until that is too old to have anything of this router's in it. */
  #tick(): void {
    const isSecond = ++this.#ticks % TICKS_A_SECOND === 0;
    if (isSecond) {
      this.#ageS++;
      for (const { load } of this.#views.values()) load.tick();
    }
    if (!this.#isNew && !(isSecond && this.#ageS <= REPORT_AGE_S + 1)) return;
    if (this.#isNew) this.#ageS = 0;
    this.#isNew = false;
    this.#observe();
  }

  #observe(): void {
    const present = new Set<string>();
    let requests = 0;
    for (const pool of this.#options.pools()) {
      const name = poolName(pool.pool);
      present.add(name);
      const known = this.#views.get(name);
      const view = known?.of === pool ? known : { of: pool, load: new UnattributedLoad(pool.scheduler) };
      this.#views.set(name, view);
      view.load.observe(this.#said);
      requests += view.load.requests;
    }
    for (const name of this.#views.keys()) if (!present.has(name)) this.#views.delete(name);
    this.#options.metrics.unattributedRequests(requests);
  }
}
