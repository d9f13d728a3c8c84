import type { Random } from '../clock/index.ts';
import { ServeError } from '../errors/index.ts';
import {
  poolName,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  type SimpleRouterMode,
  type WorkerPool,
} from '../router/index.ts';
import { eligibleWorkers, type Inhibition, pinnedIn, rankIn } from './eligibility.ts';

/** Picks one of at least one eligible worker. */
export type Pick = <Worker extends RoutableWorker>(workers: readonly Worker[]) => Worker;

interface PickOptions {
  readonly inFlight: InFlight;
  readonly random: Random;
  /** Throughput of an accelerator relative to a CPU. */
  readonly cudaToCpuRatio: number;
}

export interface RouterOptions {
  readonly mode: SimpleRouterMode;
  readonly inhibition: Inhibition;
  /** Throughput of an accelerator relative to a CPU, for `device-aware-weighted`. @default 8 */
  readonly cudaToCpuRatio?: number;
  readonly random: Random;
}

const NO_WORKERS: readonly never[] = [];

/** Router for the modes that do not need to know what workers have cached. */
export class SimpleRouter<Worker extends RoutableWorker = RoutableWorker> implements Router<Worker> {
  readonly mode: SimpleRouterMode;
  readonly #pools = new Map<string, readonly Worker[]>(); // bounded by the models in discovery, two roles each
  readonly #inFlight = new InFlight();
  readonly #inhibition: Inhibition;
  readonly #pick: Pick;
  /** Picks prefill workers. They have turns of their own, because a request takes one worker of each kind. */
  readonly #pickPrefill: Pick;

  constructor({ mode, cudaToCpuRatio = 8, random, inhibition }: RouterOptions) {
    this.mode = mode;
    this.#inhibition = inhibition;
    this.#pick = pickerFor(mode, { inFlight: this.#inFlight, random, cudaToCpuRatio });
    this.#pickPrefill = pickerFor(mode, { inFlight: this.#inFlight, random, cudaToCpuRatio });
  }

  setWorkers(pool: WorkerPool, workers: readonly Worker[]): void {
    this.#pools.set(poolName(pool), workers);
  }

  removePool(pool: WorkerPool): void {
    this.#pools.delete(poolName(pool));
  }

  async choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    signal.throwIfAborted();
    const { pool, routing } = request;
    const open = eligibleWorkers(request, this.#pools.get(poolName(pool)) ?? NO_WORKERS, this.#inhibition);
    const isPinned = pinnedIn(pool, routing) !== undefined;
    const pick = pool.role === 'prefill' ? this.#pickPrefill : this.#pick;
    const worker = isPinned ? at(open, 0) : pick(open);
    this.#inFlight.add(worker.id);
    return new SimpleReservation(worker, rankIn(pool, routing), this.#inFlight);
  }
}

class SimpleReservation<Worker extends RoutableWorker> implements Reservation<Worker> {
  readonly worker: Worker;
  readonly dpRank: number | undefined;
  readonly overlapBlocks = 0;
  readonly cachedTokens = 0;
  #inFlight: InFlight | undefined;

  constructor(worker: Worker, dpRank: number | undefined, inFlight: InFlight) {
    this.worker = worker;
    this.dpRank = dpRank;
    this.#inFlight = inFlight;
  }

  prefillDone(): void {}

  produced(): void {}

  release(): void {
    this.#inFlight?.remove(this.worker.id);
    this.#inFlight = undefined;
  }
}

/** Returns the rule of `mode`. */
export function pickerFor(mode: SimpleRouterMode, { inFlight, random, cudaToCpuRatio }: PickOptions): Pick {
  switch (mode) {
    case 'round-robin':
      return roundRobin();
    case 'random':
      return (workers) => at(workers, random.below(workers.length));
    case 'power-of-two':
      return (workers) => powerOfTwo(workers, inFlight, random);
    case 'least-loaded':
      return (workers) => leastLoaded(workers, inFlight, random);
    case 'device-aware-weighted':
      return (workers) => leastLoaded(deviceGroup(workers, inFlight, cudaToCpuRatio), inFlight, random);
    case 'direct':
      return () => {
        throw new ServeError(
          'invalid_value',
          'Invalid request: router mode "direct" needs the header x-dynamo-worker-instance-id or nvext.backend_instance_id',
          { param: 'nvext.backend_instance_id' },
        );
      };
  }
}

function roundRobin(): Pick {
  let counter = 0;
  return (workers) => {
    const chosen = at(workers, counter % workers.length);
    counter = (counter + 1) % Number.MAX_SAFE_INTEGER;
    return chosen;
  };
}

function powerOfTwo<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  random: Random,
): Worker {
  const firstAt = random.below(workers.length);
  const first = at(workers, firstAt);
  if (workers.length === 1) return first;
  const second = at(workers, (firstAt + 1 + random.below(workers.length - 1)) % workers.length);
  return inFlight.of(second.id) < inFlight.of(first.id) ? second : first;
}

/**
 * Returns the least loaded worker. Ties are broken uniformly: the k-th tied worker replaces the choice with probability
 * 1/k.
 */
function leastLoaded<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  random: Random,
): Worker {
  let chosen = at(workers, 0);
  let fewest = inFlight.of(chosen.id);
  let ties = 1;
  for (let index = 1; index < workers.length; index++) {
    const worker = at(workers, index);
    const count = inFlight.of(worker.id);
    if (count > fewest) continue;
    ties = count < fewest ? 1 : ties + 1;
    if (count < fewest || random.below(ties) === 0) chosen = worker;
    fewest = count;
  }
  return chosen;
}

/**
 * Returns the CPU workers or the others, whichever group is further below its share of the requests in flight. Workers
 * that do not name their device count as accelerators.
 */
function deviceGroup<Worker extends RoutableWorker>(
  workers: readonly Worker[],
  inFlight: InFlight,
  cudaToCpuRatio: number,
): readonly Worker[] {
  const cpus = workers.filter(isCpu);
  if (cpus.length === 0 || cpus.length === workers.length) return workers;
  const accelerators = workers.filter((worker) => !isCpu(worker));
  const load = (group: readonly Worker[]): number => group.reduce((sum, { id }) => sum + inFlight.of(id), 0);
  const share = Math.floor((load(accelerators) * cpus.length) / (cudaToCpuRatio * accelerators.length));
  return load(cpus) < share ? cpus : accelerators;
}

function isCpu({ deviceType }: RoutableWorker): boolean {
  return deviceType?.toLowerCase() === 'cpu';
}

/** Returns `workers[index]`, which must exist. */
function at<Worker>(workers: readonly Worker[], index: number): Worker {
  const worker = workers[index];
  if (worker === undefined) throw new RangeError(`no worker at ${index} of ${workers.length}`);
  return worker;
}

/** Running requests at each worker, as this process sees them. */
export class InFlight {
  readonly #counts = new Map<string, number>(); // bounded by the number of workers: a count that falls to 0 is dropped

  of(workerId: string): number {
    return this.#counts.get(workerId) ?? 0;
  }

  add(workerId: string): void {
    this.#counts.set(workerId, this.of(workerId) + 1);
  }

  remove(workerId: string): void {
    const left = this.of(workerId) - 1;
    if (left > 0) this.#counts.set(workerId, left);
    else this.#counts.delete(workerId);
  }
}
