import type { RankTable } from '../block-index/index.ts';
import { keyOfText, seedOf, weightOf } from '../router/index.ts';
import type { ReplicaShare } from './cost.ts';

interface PlacingRouter {
  readonly id: string;
  readonly seed: number;
}

/**
 * Deals the ranks of a pool among the routers that live, without a word between them: each rank goes to one of the
 * routers by rendezvous hashing, so when a router comes or goes only its own ranks move.
 */
export class RendezvousShare implements ReplicaShare {
  readonly #ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>;
  readonly #own: PlacingRouter;
  #routers: readonly PlacingRouter[];
  /** By rank number: the worker it was last worked out for, and the outcome. */
  #workers: (string | undefined)[] = [];
  #owned: boolean[] = [];

  /** @param routerId the same name under which the other routers know this one */
  constructor(ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>, routerId: string) {
    this.#ranks = ranks;
    this.#own = { id: routerId, seed: seedOf(routerId) };
    this.#routers = [this.#own];
  }

  /** The other routers that place requests in the pool now. */
  setOthers(routerIds: readonly string[]): void {
    const others = routerIds.filter((id) => id !== this.#own.id).map((id) => ({ id, seed: seedOf(id) }));
    this.#routers = [this.#own, ...others];
    this.#workers = [];
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
