import type { FleetLoads, RankLoad } from '../discovery/index.ts';
import { keyOfText, StatelessDecider, type StatelessRequest } from '../router/stateless/index.ts';
import { AskedWorkers } from './asked-workers.ts';
import type { PoolView, RoutedPool, RouterBench } from './routers.ts';
import { type NumberedWorker, numbered } from './simple-routers.ts';
import type { SimulatedRequest } from './simulated-request.ts';

/** What the workers carried at one time. */
interface Reading {
  readonly atMs: number;
  readonly loads: FleetLoads;
}

/** Readings while the newest that may be seen ages by as much as its age. */
const READINGS_AN_AGE = 4;
const READING_MS_MIN = 10;
const NO_LOADS: FleetLoads = new Map();

/**
 * Routers that hash, as functions do: each sees its own requests, and what the workers said of themselves some time ago. None
 * hears of another.
 */
export class StatelessRouters implements RouterBench {
  readonly count: number;
  readonly pending = 0;
  readonly wantsKvEvents = false;
  readonly wantsGrowth = false;
  readonly #pool: PoolView;
  readonly #dataParallelSize: number;
  readonly #loadAgeMs: number;
  readonly #askedMax: number;
  readonly #asked: AskedWorkers;
  readonly #deciders: readonly StatelessDecider<NumberedWorker>[];
  #workers: readonly NumberedWorker[] = [];
  /** The oldest one is what can be seen, once it is old enough. */
  readonly #readings: Reading[] = [];
  #isReading = false;

  constructor(pool: PoolView, options: RoutedPool) {
    const { routers, workers, dataParallelSize, engine, loadAgeMs, asking } = options;
    this.#pool = pool;
    this.#askedMax = asking?.workersMax ?? 0;
    this.#asked = new AskedWorkers(pool, {
      dataParallelSize,
      blockSizeTokens: engine.blockSizeTokens,
      delayMs: asking?.delayMs ?? 0,
    });
    this.count = routers;
    this.#dataParallelSize = dataParallelSize;
    this.#loadAgeMs = loadAgeMs;
    this.#deciders = Array.from(
      { length: routers },
      () => new StatelessDecider<NumberedWorker>(engine.blockSizeTokens),
    );
    this.setWorkers(Array.from({ length: workers }, (_, number) => number));
  }

  setWorkers(numbers: readonly number[]): void {
    this.#workers = numbers.map((number) => numbered(number, this.#dataParallelSize));
    for (const decider of this.#deciders) decider.setWorkers(this.#workers);
  }

  submit(request: SimulatedRequest): void {
    if (!this.#isReading) {
      this.#isReading = true;
      this.#read();
    }
    const { id, index, router, promptLength, names } = request;
    const first = this.#pool.firstTurnOf(index);
    const conversation = first === undefined ? undefined : keyOfText(`conversation ${first}`);
    const asked = { id, prompt: { tokens: promptLength, hashes: names.prompt }, conversation };
    const decider = this.#deciders[router]!;
    const look = decider.look(asked, this.#seen(), this.#pool.nowMs)!; // every fleet has workers
    const candidates = look.candidates(Math.max(1, this.#askedMax));
    if (candidates.length > 1) {
      const workers = candidates.map(({ number }) => number);
      this.#asked.ask({ request, draw: look.preference }, workers, (rank) => this.#send(decider, asked, request, rank));
    } else this.#send(decider, asked, request, this.#rankOf(look.chosen().number));
  }

  firstToken(): void {}

  grown(): void {}

  finished(): void {}

  kvEvents(): void {}

  #send(
    decider: StatelessDecider<NumberedWorker>,
    asked: StatelessRequest,
    request: SimulatedRequest,
    rank: number,
  ): void {
    const worker = Math.floor(rank / this.#dataParallelSize);
    decider.sent(numbered(worker, this.#dataParallelSize), asked, this.#pool.nowMs);
    this.#pool.dispatch(request, rank);
  }

  #seen(): FleetLoads {
    const oldEnoughMs = this.#pool.nowMs - this.#loadAgeMs;
    while ((this.#readings[1]?.atMs ?? Number.POSITIVE_INFINITY) <= oldEnoughMs) this.#readings.shift();
    const [oldest] = this.#readings;
    return oldest !== undefined && oldest.atMs <= oldEnoughMs ? oldest.loads : NO_LOADS;
  }

  #read(): void {
    const { nowMs, ranks } = this.#pool;
    const loads = new Map<string, { readonly ranks: RankLoad[]; readonly isDraining: boolean }>();
    for (const { id } of this.#workers) loads.set(id, { ranks: [], isDraining: false });
    for (const { worker, dpRank, load: requests, activeBlocks: decodeBlocks, pendingPrefillTokens } of ranks) {
      const prefillTokens = pendingPrefillTokens;
      loads.get(worker.toString(16))?.ranks.push({ dpRank, requests, decodeBlocks, prefillTokens });
    }
    this.#readings.push({ atMs: nowMs, loads });
    this.#seen();
    this.#pool.after(Math.max(READING_MS_MIN, this.#loadAgeMs / READINGS_AN_AGE), () => this.#read());
  }

  /** The worker's own choice, as in the mock engine: its rank with the fewest requests. */
  #rankOf(worker: number): number {
    const first = worker * this.#dataParallelSize;
    let chosen = first;
    for (let rank = first + 1; rank < first + this.#dataParallelSize; rank++)
      if (this.#pool.ranks[rank]!.load < this.#pool.ranks[chosen]!.load) chosen = rank;
    return chosen;
  }
}
