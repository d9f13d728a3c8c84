import type { GapHistogram } from './percentiles.ts';
import { type PoolOptions, type PoolView, type RouterBench, speedOf } from './routers.ts';
import { SimulatedRank, type SimulatedRequest } from './simulated-rank.ts';

/** A worker of a pool. Its GPUs are paid for from its start until it is gone. */
export interface SimulatedWorker {
  readonly number: number;
  readonly ranks: readonly SimulatedRank[];
  state: 'starting' | 'ready' | 'draining' | 'gone';
  readonly startedMs: number;
  goneMs: number | undefined;
}

/** Functions of its fleet that a pool needs. */
interface PoolFleet extends Pick<PoolView, 'nowMs' | 'after' | 'hintsOf' | 'firstTurnOf' | 'workerNamedBy' | 'refuse'> {
  /** Ranks of all pools. */
  readonly ranks: SimulatedRank[];
  readonly gaps: GapHistogram;
  /** Requests that a pool without workers holds at most. */
  readonly heldMax: number;
  dispatch(request: SimulatedRequest, rank: SimulatedRank | undefined): void;
  /** Begins a request again whose rank is lost. */
  moveOn(request: SimulatedRequest): void;
}

/** The workers of one role and the routers that choose among them. */
export class FleetPool implements PoolView {
  readonly options: PoolOptions;
  readonly routers: RouterBench;
  readonly ranks: SimulatedRank[] = [];
  readonly workers: SimulatedWorker[] = [];
  /** Requests that came while no worker served, oldest first. */
  readonly held: SimulatedRequest[] = [];
  readonly #fleet: PoolFleet;
  #readyCount: number;

  constructor(fleet: PoolFleet, options: PoolOptions, makeRouters: (pool: PoolView) => RouterBench) {
    this.#fleet = fleet;
    this.options = options;
    this.routers = makeRouters(this);
    this.#readyCount = options.workers;
    for (let count = 0; count < options.workers; count++) this.addWorker('ready');
  }

  /** A new worker with empty caches. */
  addWorker(state: 'starting' | 'ready'): SimulatedWorker {
    const { role, dataParallelSize } = this.options;
    const number = this.workers.length;
    const engine = this.#engineOf(number);
    const ranks = Array.from({ length: dataParallelSize }, (_, dpRank) => {
      const place = { role, at: this.#fleet.ranks.length, inPool: this.ranks.length, worker: number, dpRank };
      const rank = new SimulatedRank(place, engine, {
        gaps: this.#fleet.gaps,
        hasJournal: this.routers.wantsKvEvents === true && engine.enablePrefixCaching,
        notesGrowth: this.routers.wantsGrowth === true,
      });
      this.ranks.push(rank);
      this.#fleet.ranks.push(rank);
      return rank;
    });
    const worker: SimulatedWorker = { number, ranks, state, startedMs: this.nowMs, goneMs: undefined };
    this.workers.push(worker);
    return worker;
  }

  #engineOf(worker: number): PoolOptions['engine'] {
    const { engine } = this.options;
    const speed = speedOf(worker, this.options);
    return speed === 1 ? engine : { ...engine, speedupRatio: (engine.speedupRatio || 1) * speed };
  }

  /** Changes the state of a worker: it serves, drains, or is gone. */
  become(worker: SimulatedWorker, state: 'ready' | 'draining' | 'gone'): void {
    const wasReady = worker.state === 'ready';
    worker.state = state;
    if (state === 'gone') worker.goneMs = this.nowMs;
    if (wasReady === (state === 'ready')) return;
    const ready = this.workers.filter((each) => each.state === 'ready');
    this.#readyCount = ready.length;
    this.routers.setWorkers(ready.map(({ number }) => number));
    if (this.#readyCount > 0) for (const request of this.held.splice(0)) this.routers.submit(request);
  }

  /** Removes a worker. Its requests begin again elsewhere. Returns how many did. */
  lose(worker: SimulatedWorker): number {
    const cut = worker.ranks.flatMap((rank) => rank.evacuate());
    for (const request of cut) this.routers.finished?.(request);
    this.become(worker, 'gone');
    for (const request of cut) this.#fleet.moveOn(request);
    return cut.length;
  }

  /** Hands a request to the routers; without a worker it waits, if there is room. */
  submit(request: SimulatedRequest): void {
    if (this.#readyCount > 0) this.routers.submit(request);
    else if (this.held.length < this.#fleet.heldMax) this.held.push(request);
    else this.refuse(request);
  }

  /** Longest sequence that a rank can hold. */
  get heldTokensMax(): number {
    const { numGpuBlocks, blockSizeTokens } = this.options.engine;
    return numGpuBlocks * blockSizeTokens;
  }

  get promptTokensMax(): number {
    const { enableChunkedPrefill, maxNumBatchedTokens } = this.options.engine;
    return enableChunkedPrefill ? Number.POSITIVE_INFINITY : maxNumBatchedTokens;
  }

  get nowMs(): number {
    return this.#fleet.nowMs;
  }

  after(delayMs: number, callback: () => void): void {
    this.#fleet.after(delayMs, callback);
  }

  hintsOf(request: number): { readonly priorityJump: number; readonly strictPriority: number } {
    return this.#fleet.hintsOf(request);
  }

  firstTurnOf(request: number): number | undefined {
    return this.#fleet.firstTurnOf(request);
  }

  workerNamedBy(request: number): number | undefined {
    return this.#fleet.workerNamedBy(request);
  }

  dispatch(request: SimulatedRequest, rank: number): void {
    this.#fleet.dispatch(request, this.ranks[rank]);
  }

  refuse(request: SimulatedRequest): void {
    this.#fleet.refuse(request);
  }
}
