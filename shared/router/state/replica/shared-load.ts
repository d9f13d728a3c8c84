import { combineLoad, isNoLoad, type LoadAmounts, loadOf, NO_LOAD, subtractLoad } from '../load/load-amounts.ts';
import type { LoadRow, RankId } from '../types.ts';

export interface SharedLoadOptions {
  /** What this router's load model knows of a rank by itself: its own requests and those that other routers told of. */
  knownLoad(rank: RankId): LoadAmounts;
  /** What the rank carries beyond that. The model adds it to the load until told otherwise. */
  setForeignLoad(rank: RankId, amounts: LoadAmounts): void;
}

interface RankView {
  readonly rank: RankId;
  /** Of the look before. */
  beyond: LoadAmounts;
  foreign: LoadAmounts;
}

/**
 * Makes the shared counters part of a router's own load model, so that replicas agree also where they do not hear of each
 * other (design, "Counters, and replica sync"). What the counters have beyond what the router knows was sent by others. A
 * request that ended just now is still in the last report of its worker: only what was beyond at two looks counts.
 */
export class SharedLoad {
  readonly #options: SharedLoadOptions;
  #views = new Map<string, RankView>(); // bounded by the ranks of the last look

  constructor(options: SharedLoadOptions) {
    this.#options = options;
  }

  /** Takes one look at the counters of the pool. */
  observe(rows: readonly LoadRow[]): void {
    const { knownLoad, setForeignLoad } = this.#options;
    const views = new Map<string, RankView>();
    for (const row of rows) {
      const key = `${row.rank.workerId}/${row.rank.dpRank}`;
      const view = this.#views.get(key);
      const beyond = combineLoad(subtractLoad(loadOf(row), knownLoad(row.rank)), NO_LOAD, Math.max);
      const foreign = combineLoad(beyond, view?.beyond ?? NO_LOAD, Math.min);
      if (!isSame(foreign, view?.foreign ?? NO_LOAD)) setForeignLoad(row.rank, foreign);
      views.set(key, { rank: row.rank, beyond, foreign });
    }
    for (const [key, { rank, foreign }] of this.#views) {
      if (!views.has(key) && !isNoLoad(foreign)) setForeignLoad(rank, NO_LOAD); // withdrawn
    }
    this.#views = views;
  }
}

function isSame(left: LoadAmounts, right: LoadAmounts): boolean {
  return isNoLoad(subtractLoad(left, right));
}
