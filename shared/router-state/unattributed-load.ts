import type { FleetLoads, RankLoad } from '../discovery/index.ts';
import type { RankWeight, Scheduler } from '../scheduler/index.ts';

/** Bound of the age of a report at the time of reading: a second each at the worker, on the way, and at the reader. */
export const REPORT_AGE_S = 3;

/** Facts of one rank of the pool. */
interface RankView {
  /** Largest load that this router knew in each of the last seconds, the present one first. */
  readonly most: RankWeight[];
  unattributed: RankWeight;
}

const NO_LOAD: RankWeight = { requests: 0, decodeBlocks: 0, prefillTokens: 0 };

/**
 * Adds the reports of workers to a router's own load model, so that routers agree even if their messages do not reach
 * each other. If a worker reports more load than the router knows, other routers have sent the rest:
 *
 *     said by the worker, up to 3 s ago     |===== its own and its peers' =====|=== of others ===|
 *     the most that was known since then    |===== its own and its peers' ========|         the rest is unattributed
 *
 * The comparison uses the largest known load of the last seconds. A request that has just ended is still in the report,
 * and a new one is not in it yet. So the router never invents load of others, and rather underestimates it for those
 * seconds.
 */
export class UnattributedLoad {
  readonly #scheduler: Pick<Scheduler, 'loads' | 'bookedLoad' | 'setUnattributedLoad'>;
  #views = new Map<string, RankView>(); // by rank; those of the pool at the last check
  #requests = 0;

  /** @param scheduler that of the pool, which has the requests that this router or its peers booked */
  constructor(scheduler: Pick<Scheduler, 'loads' | 'bookedLoad' | 'setUnattributedLoad'>) {
    this.#scheduler = scheduler;
  }

  /** Number of requests of others at all ranks. */
  get requests(): number {
    return this.#requests;
  }

  /** Notes a booking at a rank, because the request may end within the same second. */
  booked(workerId: string, dpRank: number): void {
    const known = this.#scheduler.bookedLoad(workerId, dpRank);
    if (known !== undefined) note(this.#viewOf(keyOf(workerId, dpRank)), known);
  }

  /** Begins the next second. */
  tick(): void {
    for (const { workerId, dpRank } of this.#scheduler.loads()) {
      const view = this.#views.get(keyOf(workerId, dpRank));
      if (view === undefined) continue;
      view.most.unshift(this.#scheduler.bookedLoad(workerId, dpRank) ?? NO_LOAD);
      view.most.length = Math.min(view.most.length, REPORT_AGE_S + 1);
    }
  }

  /** Compares the reports of the workers with the known load. */
  observe(fleet: FleetLoads): void {
    const views = new Map<string, RankView>();
    let requests = 0;
    for (const { workerId, dpRank } of this.#scheduler.loads()) {
      const key = keyOf(workerId, dpRank);
      const view = this.#viewOf(key);
      note(view, this.#scheduler.bookedLoad(workerId, dpRank) ?? NO_LOAD);
      const said = fleet.get(workerId)?.ranks.find((rank) => rank.dpRank === dpRank);
      const beyond = said === undefined ? NO_LOAD : beyondOf(said, view);
      // Repeated while there is any load, because a rank that left and came back has lost it.
      if (!isNoLoad(beyond) || !isNoLoad(view.unattributed)) {
        this.#scheduler.setUnattributedLoad(workerId, dpRank, beyond);
      }
      view.unattributed = beyond;
      requests += beyond.requests;
      views.set(key, view);
    }
    this.#views = views;
    this.#requests = requests;
  }

  #viewOf(key: string): RankView {
    const known = this.#views.get(key);
    if (known !== undefined) return known;
    const view: RankView = { most: [NO_LOAD], unattributed: NO_LOAD };
    this.#views.set(key, view);
    return view;
  }
}

function keyOf(workerId: string, dpRank: number): string {
  return `${workerId}/${dpRank}`;
}

function note({ most }: RankView, known: RankWeight): void {
  most[0] = combine(most[0] ?? NO_LOAD, known, Math.max);
}

function beyondOf(said: RankLoad, { most }: RankView): RankWeight {
  const known = most.reduce((left, right) => combine(left, right, Math.max));
  return combine(said, known, (all, ours) => Math.max(0, all - ours));
}

/** Applies `of` to each kind of amount. */
function combine(left: RankWeight, right: RankWeight, of: (left: number, right: number) => number): RankWeight {
  return {
    requests: of(left.requests, right.requests),
    decodeBlocks: of(left.decodeBlocks, right.decodeBlocks),
    prefillTokens: of(left.prefillTokens, right.prefillTokens),
  };
}

function isNoLoad({ requests, decodeBlocks, prefillTokens }: RankWeight): boolean {
  return requests === 0 && decodeBlocks === 0 && prefillTokens === 0;
}
