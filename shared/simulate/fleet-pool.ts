import type { Fleet } from './fleet.ts';
import type { PoolOptions, PoolView, RouterBench } from './routers.ts';
import { SimulatedRank } from './simulated-rank.ts';
import type { SimulatedRequest } from './simulated-request.ts';

/** The workers of one role and the routers that choose among them. */
export class FleetPool implements PoolView {
  readonly options: PoolOptions;
  readonly routers: RouterBench;
  readonly ranks: readonly SimulatedRank[];
  /** Number of its first rank in the fleet. */
  readonly firstRank: number;
  readonly #fleet: Fleet;

  constructor(fleet: Fleet, options: PoolOptions, firstRank: number, makeRouters: (pool: PoolView) => RouterBench) {
    this.#fleet = fleet;
    this.options = options;
    this.firstRank = firstRank;
    this.routers = makeRouters(this);
    const { role, workers, dataParallelSize, engine } = options;
    this.ranks = Array.from(
      { length: workers * dataParallelSize },
      (_, at) =>
        new SimulatedRank(
          { role, at: firstRank + at, worker: Math.floor(at / dataParallelSize), dpRank: at % dataParallelSize },
          engine,
          {
            gaps: fleet.gaps,
            hasJournal: this.routers.wantsKvEvents && engine.enablePrefixCaching,
            notesGrowth: this.routers.wantsGrowth,
          },
        ),
    );
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

  dispatch(request: SimulatedRequest, rank: number): void {
    this.#fleet.dispatch(request, this.firstRank + rank);
  }

  refuse(request: SimulatedRequest): void {
    this.#fleet.refuse(request);
  }
}
