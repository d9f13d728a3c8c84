import { type Random, seededRandom } from '../clock/index.ts';
import type { FleetLoads, RankLoad } from '../discovery/index.ts';
import { keyOfText, type RoutableWorker } from '../router/index.ts';
import { InFlight, type Pick, pickerFor } from '../scheduler/index.ts';
import {
  bestQuote,
  CLAIMS_MAX,
  type HeldPlace,
  PlaceBook,
  placeOn,
  type RankQuote,
  StatelessDecider,
  type StatelessRequest,
  termsOf,
} from '../stateless-router/index.ts';
import type { CpuWorkers, PoolView, RoutedPool, RouterBench, RoutingMode } from './routers.ts';
import type { SimulatedRank, SimulatedRequest } from './simulated-rank.ts';

interface AskedWorkersOptions {
  readonly dataParallelSize: number;
  readonly blockSizeTokens: number;
  /** Milliseconds that a question and its answer take together. */
  readonly delayMs: number;
}

/**
 * Asks workers what a prompt would cost, and for a place, as `WorkerAsker` does. The way there and the way back take
 * time, during which other routers ask.
 */
class AskedWorkers {
  readonly #pool: PoolView;
  readonly #options: AskedWorkersOptions;
  readonly #books = new Map<number, PlaceBook>(); // by worker

  constructor(pool: PoolView, options: AskedWorkersOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /**
   * Asks workers by number, the one that hashing names first. `decided` receives the rank, by its place in the pool.
   */
  ask(
    request: SimulatedRequest,
    [home, ...others]: readonly [number, ...number[]],
    decided: (rank: number) => void,
  ): void {
    const { id, promptLength: tokens } = request;
    this.#later(0.5, () => {
      const quotes = this.#quotesOf(request, home);
      const place = placeOn(termsOf({ id, tokens }), quotes);
      if (place !== undefined) {
        this.#hold(place, home, decided);
        return;
      }
      this.#later(1, () => {
        const all = [...quotes, ...others.flatMap((worker) => this.#quotesOf(request, worker))];
        this.#later(0.5, () => this.#claim({ request, home }, all, CLAIMS_MAX, decided));
      });
    });
  }

  #claim(
    { request, home }: { readonly request: SimulatedRequest; readonly home: number },
    quotes: RankQuote[],
    left: number,
    decided: (rank: number) => void,
  ): void {
    const { id, promptLength: tokens } = request;
    const { blockSizeTokens } = this.#options;
    const best = bestQuote({ id, homeId: home.toString(16), tokens, blockSizeTokens }, quotes);
    const { dpRank, workerId } = best.quote;
    const worker = Number.parseInt(workerId, 16);
    this.#later(0.5, () => {
      const prefillTokens = this.#prefillTokens(worker * this.#options.dataParallelSize + dpRank);
      if (prefillTokens > best.prefillTokensMax && left > 1) {
        const now = quotes.map((quote) => (quote === best.quote ? { ...quote, prefillTokens } : quote));
        this.#later(0.5, () => this.#claim({ request, home }, now, left - 1, decided));
        return;
      }
      this.#hold({ id, dpRank, tokens: best.uncachedTokens }, worker, decided);
    });
  }

  #hold(place: HeldPlace, worker: number, decided: (rank: number) => void): void {
    this.#book(worker).hold(place);
    this.#later(1, () => {
      this.#book(worker).arrived(place.id);
      decided(worker * this.#options.dataParallelSize + place.dpRank);
    });
  }

  #quotesOf(request: SimulatedRequest, worker: number): RankQuote[] {
    const { dataParallelSize } = this.#options;
    return Array.from({ length: dataParallelSize }, (_, dpRank) => {
      const rank = worker * dataParallelSize + dpRank;
      const { activeBlocks } = this.#rank(rank);
      const cachedTokens = this.#rank(rank).cachedTokens(request);
      return {
        workerId: worker.toString(16),
        dpRank,
        cachedTokens,
        prefillTokens: this.#prefillTokens(rank),
        activeBlocks,
      };
    });
  }

  #prefillTokens(rank: number): number {
    const { worker, dpRank, pendingPrefillTokens } = this.#rank(rank);
    return pendingPrefillTokens + this.#book(worker).tokensOf(dpRank);
  }

  #rank(at: number): SimulatedRank {
    return this.#pool.ranks[at]!;
  }

  #book(worker: number): PlaceBook {
    const known = this.#books.get(worker);
    if (known !== undefined) return known;
    const pool = this.#pool;
    const book = new PlaceBook({ nowMs: () => pool.nowMs });
    this.#books.set(worker, book);
    return book;
  }

  #later(trips: number, act: () => void): void {
    this.#pool.after(trips * this.#options.delayMs, act);
  }
}

const CUDA_TO_CPU_RATIO = 8;

type SimpleMode = Exclude<RoutingMode, 'direct' | 'kv' | 'load-aware' | 'stateless'>;

interface NumberedWorker extends RoutableWorker {
  readonly number: number;
}

function numbered(
  number: number,
  { dataParallelSize, cpus }: { readonly dataParallelSize: number; readonly cpus?: CpuWorkers | undefined },
): NumberedWorker {
  return {
    number,
    id: number.toString(16),
    dataParallelStartRank: 0,
    dataParallelSize,
    deviceType: number < (cpus?.count ?? 0) ? 'cpu' : undefined,
    taints: [],
  };
}

/** Returns the worker's own choice, as in the mock engine: its rank with the fewest requests. */
function leastLoadedRank({ ranks }: PoolView, worker: number, dataParallelSize: number): number {
  const first = worker * dataParallelSize;
  let chosen = first;
  for (let rank = first + 1; rank < first + dataParallelSize; rank++)
    if (ranks[rank]!.load < ranks[chosen]!.load) chosen = rank;
  return chosen;
}

/** Routers that know only their own requests in flight. Each counts for itself, as separate processes do. */
export class SimpleRouters implements RouterBench {
  readonly count: number;
  readonly pending = 0;
  readonly #pool: PoolView;
  readonly #options: RoutedPool;
  #workers: readonly NumberedWorker[] = [];
  readonly #inFlight: readonly InFlight[];
  readonly #picks: readonly Pick[];

  constructor(pool: PoolView, options: RoutedPool & { readonly mode: SimpleMode }) {
    const { mode, routers, workers, seed, cudaToCpuRatio = CUDA_TO_CPU_RATIO } = options;
    this.#pool = pool;
    this.count = routers;
    this.#options = options;
    this.setWorkers(Array.from({ length: workers }, (_, number) => number));
    this.#inFlight = Array.from({ length: routers }, () => new InFlight());
    this.#picks = this.#inFlight.map((inFlight, router) =>
      pickerFor(mode, { inFlight, random: routerRandom(seed, router), cudaToCpuRatio }),
    );
  }

  setWorkers(numbers: readonly number[]): void {
    this.#workers = numbers.map((number) => numbered(number, this.#options));
  }

  submit(request: SimulatedRequest): void {
    const worker = this.#picks[request.router]!(this.#workers);
    this.#inFlight[request.router]!.add(worker.id);
    this.#pool.dispatch(request, leastLoadedRank(this.#pool, worker.number, this.#options.dataParallelSize));
  }

  finished(request: SimulatedRequest): void {
    this.#inFlight[request.router]!.remove(request.rank!.worker.toString(16));
  }
}

/** Routers of the mode `direct`: the client names the worker. One that is not there, or not named, is an error. */
export class DirectRouters implements RouterBench {
  readonly count: number;
  readonly pending = 0;
  readonly #pool: PoolView;
  readonly #dataParallelSize: number;
  #workers: ReadonlySet<number> = new Set();

  constructor(pool: PoolView, { routers, workers, dataParallelSize }: RoutedPool) {
    this.#pool = pool;
    this.count = routers;
    this.#dataParallelSize = dataParallelSize;
    this.setWorkers(Array.from({ length: workers }, (_, number) => number));
  }

  setWorkers(numbers: readonly number[]): void {
    this.#workers = new Set(numbers);
  }

  submit(request: SimulatedRequest): void {
    const worker = this.#pool.workerNamedBy(request.index);
    if (worker === undefined || !this.#workers.has(worker)) this.#pool.refuse(request);
    else this.#pool.dispatch(request, leastLoadedRank(this.#pool, worker, this.#dataParallelSize));
  }
}

/** Returns the chance of one router: its own stream for each seed. */
export function routerRandom(seed: number, router: number): Random {
  return seededRandom((Math.imul(seed, 0x9e37_79b1) + Math.imul(router + 1, 0x85eb_ca77)) >>> 0);
}

/** Load of the workers at one time. */
interface Reading {
  readonly atMs: number;
  readonly loads: FleetLoads;
}

/** Readings within one `loadAgeMs`. */
const READINGS_AN_AGE = 4;
const READING_MS_MIN = 10;
const NO_LOADS: FleetLoads = new Map();

/**
 * Routers that hash, as functions do. Each sees its own requests, and loads that the workers reported some time ago.
 * None hears of another.
 */
export class StatelessRouters implements RouterBench {
  readonly count: number;
  readonly pending = 0;
  readonly #pool: PoolView;
  readonly #dataParallelSize: number;
  readonly #loadAgeMs: number;
  readonly #askedMax: number;
  readonly #asked: AskedWorkers;
  readonly #deciders: readonly StatelessDecider<NumberedWorker>[];
  #workers: readonly NumberedWorker[] = [];
  /** Readings, of which routers see the oldest once it is old enough. */
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
    this.#workers = numbers.map((number) => numbered(number, { dataParallelSize: this.#dataParallelSize }));
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
      const workers = candidates.map(({ number }) => number) as [number, ...number[]];
      this.#asked.ask(request, workers, (rank) => this.#send(decider, asked, request, rank));
    } else
      this.#send(decider, asked, request, leastLoadedRank(this.#pool, look.chosen().number, this.#dataParallelSize));
  }

  #send(
    decider: StatelessDecider<NumberedWorker>,
    asked: StatelessRequest,
    request: SimulatedRequest,
    rank: number,
  ): void {
    const worker = Math.floor(rank / this.#dataParallelSize);
    decider.sent(numbered(worker, { dataParallelSize: this.#dataParallelSize }), asked, this.#pool.nowMs);
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
}
