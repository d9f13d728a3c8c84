import type { RankTable } from '../block-index/index.ts';
import { keyOfText, seedOf, weightOf } from '../router/index.ts';
import type { ReplicaShare } from './cost.ts';

interface PlacingRouter {
  readonly id: string;
  readonly seed: number;
}

/**
 * Assigns the ranks of a pool to the live routers, without messages between them. Rendezvous hashing gives each rank to
 * one router, so when a router comes or goes only its own ranks move.
 */
export class RendezvousShare implements ReplicaShare {
  readonly #ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>;
  readonly #own: PlacingRouter;
  #routers: readonly PlacingRouter[];
  /** Result by rank number, and the worker for which it was computed. */
  #workers: (string | undefined)[] = [];
  #owned: boolean[] = [];

  /** @param routerId the name by which the other routers know this one */
  constructor(ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>, routerId: string) {
    this.#ranks = ranks;
    this.#own = { id: routerId, seed: seedOf(routerId) };
    this.#routers = [this.#own];
  }

  /** Sets the other routers that place requests in the pool now. */
  setOthers(routerIds: readonly string[]): void {
    const others = routerIds.filter((id) => id !== this.#own.id).map((id) => ({ id, seed: seedOf(id) }));
    this.#routers = [this.#own, ...others];
    this.#workers = [];
  }

  get routers(): number {
    return this.#routers.length;
  }

  isOwn(rank: number): boolean {
    if (this.#routers.length === 1) return true;
    const worker = this.#ranks.workerIdOf(rank);
    if (worker !== this.#workers[rank] || worker === undefined) {
      this.#workers[rank] = worker;
      this.#owned[rank] = this.#isHeaviest(`${worker}/${this.#ranks.dpRankOf(rank)}`);
    }
    return this.#owned[rank] ?? false;
  }

  #isHeaviest(name: string): boolean {
    const key = keyOfText(name);
    const own = weightOf(key, this.#own.seed);
    return this.#routers.every(({ id, seed }) => {
      const weight = weightOf(key, seed);
      return weight < own || (weight === own && id >= this.#own.id);
    });
  }
}
