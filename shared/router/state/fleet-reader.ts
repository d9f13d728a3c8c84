import type { Clock, Random } from '../../clock/index.ts';
import { ageMs, type Moment, momentOf } from '../../discovery/table/index.ts';
import { cellsOfPrefix, type FleetCell, type FleetWorker, unpackFleetCell } from './fleet-item.ts';
import type { PoolAddress, RouterState } from './types.ts';

export interface FleetReaderOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  readonly clock: Clock;
  readonly random: Random;
  /** A cell is read at most this often. @default 250 */
  readonly cacheMs?: number;
  /** What a cell may be late, beyond the longest time between two writes of it. @default 2000 */
  readonly stalenessMs?: number;
  /** Longest wait for one reading; a request waits for it. @default 200 */
  readonly readTimeoutMs?: number;
  /** The workers by their leases, for when the fleet item is missing or old. */
  queryLeases(signal: AbortSignal): Promise<readonly FleetWorker[]>;
  /** Hears of readings that failed. */
  onProblem(problem: unknown): void;
}

/** Where workers to choose from came from. `last` = nothing could be read: what was known before. */
export type FleetSource = 'item' | 'leases' | 'last';

export interface FleetView {
  readonly source: FleetSource;
  readonly workers: readonly FleetWorker[];
}

interface CachedCell {
  readonly cell: FleetCell;
  readonly writtenAtMs: number;
}

/** The last look at one cell or at the leases, which later requests share. */
interface Look<T> {
  readonly began: Moment;
  readonly result: Promise<T>;
}

const CACHE_MS = 250;
const STALENESS_MS = 2000;
const READ_TIMEOUT_MS = 200;
/** One read in this many is told of, and counts for all of them: at most 1 % more requests. */
const COUNTED_READS = 100;

/**
 * The workers of a pool, as functions see them without a router. A cell is read at most every 250 ms and shared by the
 * requests in between; what is missing or older than its bound is replaced by a query of the leases, and while the table is
 * away by what was last known. Never rejects but with the reason of the caller's signal.
 */
export class FleetReader {
  readonly #options: FleetReaderOptions;
  readonly #looks = new Map<number, Look<CachedCell | undefined>>(); // by cell; bounded by the cells there are
  readonly #copySeed: number;
  #leases: Look<readonly FleetWorker[] | undefined> | undefined;
  #cells = 1;
  #copies = 1;
  #last: readonly FleetWorker[] = [];

  constructor(options: FleetReaderOptions) {
    this.#options = options;
    this.#copySeed = options.random.below(2 ** 16);
  }

  /**
   * The workers to choose from for a prefix. `isSpill` asks for its second cell, when the first has nobody left.
   *
   * @param prefix hash of the first blocks, low half first; anything for a request without any
   */
  async workersFor(
    prefix: readonly [low: number, high: number],
    isSpill: boolean,
    signal: AbortSignal,
  ): Promise<FleetView> {
    signal.throwIfAborted();
    const { state, stalenessMs = STALENESS_MS } = this.#options;
    const cached = await this.#cellOf(prefix, isSpill);
    signal.throwIfAborted();
    const nowMs = state.nowMs();
    if (cached !== undefined && nowMs - cached.writtenAtMs <= cached.cell.rewriteMs + stalenessMs) {
      // A lease that was renewed since is told of only with the next writing.
      const isAlive = (worker: FleetWorker): boolean => nowMs < worker.aliveUntilMs + cached.cell.rewriteMs;
      this.#last = cached.cell.workers.filter(isAlive);
      return { source: 'item', workers: this.#last };
    }
    const workers = await this.#queryLeases();
    signal.throwIfAborted();
    if (workers === undefined) return { source: 'last', workers: this.#last };
    this.#last = workers;
    return { source: 'leases', workers };
  }

  async #cellOf(prefix: readonly [number, number], isSpill: boolean): Promise<CachedCell | undefined> {
    const place = (): number => {
      const { first, spill } = cellsOfPrefix(prefix, this.#cells);
      return isSpill ? spill : first;
    };
    const asked = place();
    const cached = await this.#look(asked);
    return place() === asked ? cached : this.#look(place()); // the fleet has another number of cells than we thought
  }

  #look(cell: number): Promise<CachedCell | undefined> {
    const { clock, cacheMs = CACHE_MS } = this.#options;
    const known = this.#looks.get(cell);
    if (known !== undefined && ageMs(known.began, clock) < cacheMs) return known.result;
    const look = { began: momentOf(clock), result: this.#read(cell) };
    this.#looks.set(cell, look);
    return look.result;
  }

  /** Copies other than the first exist only as long as they are needed: what is old there is looked for in the first. */
  async #read(cell: number): Promise<CachedCell | undefined> {
    const copy = this.#copySeed % this.#copies;
    const cached = await this.#readCopy(cell, copy);
    const isGone = cached === undefined || this.#isOld(cached);
    return copy > 0 && isGone ? this.#readCopy(cell, 0) : cached;
  }

  #isOld({ cell, writtenAtMs }: CachedCell): boolean {
    return this.#options.state.nowMs() - writtenAtMs > cell.rewriteMs + (this.#options.stalenessMs ?? STALENESS_MS);
  }

  async #readCopy(cell: number, copy: number): Promise<CachedCell | undefined> {
    const { state, pool, onProblem } = this.#options;
    try {
      const row = await this.#bounded((signal) => state.readFleetItem({ pool, cell, copy }, signal));
      this.#countRead();
      if (row === undefined) return undefined;
      const unpacked = unpackFleetCell(row.body, row.writtenAtMs);
      this.#cells = unpacked.cells;
      this.#copies = Math.max(1, unpacked.copies);
      for (const other of this.#looks.keys()) if (other >= this.#cells) this.#looks.delete(other);
      return { cell: unpacked, writtenAtMs: row.writtenAtMs };
    } catch (problem) {
      onProblem(problem);
      return undefined;
    }
  }

  #queryLeases(): Promise<readonly FleetWorker[] | undefined> {
    const { clock, stalenessMs = STALENESS_MS, queryLeases, onProblem } = this.#options;
    if (this.#leases !== undefined && ageMs(this.#leases.began, clock) < stalenessMs) return this.#leases.result;
    const result = this.#bounded(queryLeases).catch((problem: unknown) => {
      onProblem(problem);
      this.#leases = undefined; // the next request asks again
      return undefined;
    });
    this.#leases = { began: momentOf(clock), result };
    return result;
  }

  #countRead(): void {
    const { state, pool, random } = this.#options;
    if (random.below(COUNTED_READS) !== 0) return;
    // A count that is lost makes the writer a little late with another copy, no more.
    void this.#bounded((signal) => state.countFleetReads(pool, COUNTED_READS, signal)).catch(() => {});
  }

  /** Not bound to the request that began it: others share the answer. */
  async #bounded<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, readTimeoutMs = READ_TIMEOUT_MS } = this.#options;
    const patience = new AbortController();
    const deadline = clock.after(readTimeoutMs, () =>
      patience.abort(new Error(`no answer within ${readTimeoutMs} ms`)),
    );
    try {
      return await work(patience.signal);
    } finally {
      deadline.cancel();
    }
  }
}
