import type { Clock, Random } from '../../clock/index.ts';
import { eligibleWorkers, isUnconstrained, pinnedWorkerId } from '../eligibility/eligible.ts';
import { Inhibition } from '../eligibility/inhibition.ts';
import type { Reservation, RoutableWorker, RouteRequest, Router, SimpleRouterMode } from '../types.ts';
import { InFlight } from './in-flight.ts';
import { at, type Pick, pickerFor } from './modes.ts';

export interface RouterOptions {
  readonly mode: SimpleRouterMode;
  /** How long a worker that failed is passed over, 0 = never. @default 5000 */
  readonly inhibitedMs?: number;
  /** Throughput of an accelerator against a CPU, for `device-aware-weighted`. @default 8 */
  readonly cudaToCpuRatio?: number;
  readonly clock: Clock;
  readonly random: Random;
}

/** A router for the modes that need no knowledge of what workers have cached. */
export function createRouter(options: RouterOptions): Router {
  return new SimpleRouter(options);
}

class SimpleRouter implements Router {
  readonly mode: SimpleRouterMode;
  readonly #inFlight = new InFlight();
  readonly #inhibition: Inhibition;
  readonly #pick: Pick;
  /** Prefill workers have turns of their own: a request takes one of each. */
  readonly #pickPrefill: Pick;

  constructor({ mode, inhibitedMs = 5000, cudaToCpuRatio = 8, clock, random }: RouterOptions) {
    this.mode = mode;
    this.#inhibition = new Inhibition(clock, inhibitedMs);
    this.#pick = pickerFor(mode, { inFlight: this.#inFlight, random, cudaToCpuRatio });
    this.#pickPrefill = pickerFor(mode, { inFlight: this.#inFlight, random, cudaToCpuRatio });
  }

  async choose<Worker extends RoutableWorker>(
    request: RouteRequest,
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Reservation<Worker>> {
    signal.throwIfAborted();
    const needsFilter = workers.length === 0 || !this.#inhibition.isEmpty || !isUnconstrained(request);
    const open = needsFilter ? eligibleWorkers(request, workers, this.#inhibition) : workers;
    const isPinned = pinnedWorkerId(request.routing) !== undefined;
    const pick = request.pool?.role === 'prefill' ? this.#pickPrefill : this.#pick;
    const worker = isPinned ? at(open, 0) : pick(open);
    this.#inFlight.add(worker.id);
    return new Held(worker, request.routing.dp_rank, this.#inFlight);
  }

  inhibit(workerId: string): void {
    this.#inhibition.add(workerId);
  }

  forget(workerId: string): void {
    this.#inhibition.forget(workerId);
  }
}

class Held<Worker extends RoutableWorker> implements Reservation<Worker> {
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
