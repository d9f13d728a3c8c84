import { type Random, seededRandom } from '../clock/index.ts';
import type { RoutableWorker } from '../router/index.ts';
import { InFlight, type Pick, pickerFor } from '../router/scheduler/index.ts';
import type { PoolView, RoutedPool, RouterBench, RoutingMode } from './routers.ts';
import type { SimulatedRequest } from './simulated-request.ts';

type SimpleMode = Exclude<RoutingMode, 'kv' | 'load-aware' | 'stateless'>;

export interface NumberedWorker extends RoutableWorker {
  readonly number: number;
}

export function numbered(number: number, dataParallelSize: number): NumberedWorker {
  return {
    number,
    id: number.toString(16),
    dataParallelStartRank: 0,
    dataParallelSize,
    deviceType: undefined,
    taints: [],
  };
}

/** Routers that look at their own requests in flight only: each counts for itself, as separate processes do. */
export class SimpleRouters implements RouterBench {
  readonly count: number;
  readonly pending = 0;
  readonly wantsKvEvents = false;
  readonly wantsGrowth = false;
  readonly #pool: PoolView;
  readonly #dataParallelSize: number;
  #workers: readonly NumberedWorker[] = [];
  readonly #inFlight: readonly InFlight[];
  readonly #picks: readonly Pick[];

  constructor(
    pool: PoolView,
    { mode, routers, workers, dataParallelSize, seed }: RoutedPool & { readonly mode: SimpleMode },
  ) {
    this.#pool = pool;
    this.count = routers;
    this.#dataParallelSize = dataParallelSize;
    this.setWorkers(Array.from({ length: workers }, (_, number) => number));
    this.#inFlight = Array.from({ length: routers }, () => new InFlight());
    this.#picks = this.#inFlight.map((inFlight, router) =>
      pickerFor(mode, { inFlight, random: routerRandom(seed, router), cudaToCpuRatio: 1 }),
    );
  }

  setWorkers(numbers: readonly number[]): void {
    this.#workers = numbers.map((number) => numbered(number, this.#dataParallelSize));
  }

  submit(request: SimulatedRequest): void {
    const worker = this.#picks[request.router]!(this.#workers);
    this.#inFlight[request.router]!.add(worker.id);
    this.#pool.dispatch(request, this.#rankOf(worker.number));
  }

  firstToken(): void {}

  grown(): void {}

  finished(request: SimulatedRequest): void {
    this.#inFlight[request.router]!.remove(request.rank!.worker.toString(16));
  }

  kvEvents(): void {}

  /** The worker's own choice, as in the mock engine: its rank with the fewest requests. */
  #rankOf(worker: number): number {
    const first = worker * this.#dataParallelSize;
    let chosen = first;
    for (let rank = first + 1; rank < first + this.#dataParallelSize; rank++)
      if (this.#pool.ranks[rank]!.load < this.#pool.ranks[chosen]!.load) chosen = rank;
    return chosen;
  }
}

/** Chance of one router: its own stream for each seed. */
export function routerRandom(seed: number, router: number): Random {
  return seededRandom((Math.imul(seed, 0x9e37_79b1) + Math.imul(router + 1, 0x85eb_ca77)) >>> 0);
}
