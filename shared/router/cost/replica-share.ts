import type { RankTable } from '../rank-table.ts';
import { chooseByRendezvous, requestKeyOf, type StatelessWorker } from '../stateless/index.ts';
import type { ReplicaShare } from './stator-cost.ts';

/**
 * Deals the ranks of a pool among the routers that live, without a word between them: each rank goes to one of the routers
 * by rendezvous hashing, so when a router comes or goes only its own ranks move.
 */
export class RendezvousShare implements ReplicaShare {
  readonly #ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>;
  readonly #own: StatelessWorker;
  #routers: readonly StatelessWorker[];
  /** By rank number: the worker it was last worked out for, and the outcome. */
  #workers: (string | undefined)[] = [];
  #owned: boolean[] = [];

  /** @param routerId the same name under which the other routers know this one */
  constructor(ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>, routerId: string) {
    this.#ranks = ranks;
    this.#own = { id: routerId, load: 0 };
    this.#routers = [this.#own];
  }

  /** The other routers that place requests in the pool now. */
  setOthers(routerIds: readonly string[]): void {
    this.#routers = [this.#own, ...routerIds.filter((id) => id !== this.#own.id).map((id) => ({ id, load: 0 }))];
    this.#workers = [];
  }

  isOwn(rank: number): boolean {
    if (this.#routers.length === 1) return true;
    const worker = this.#ranks.workerIdOf(rank);
    if (worker !== this.#workers[rank] || worker === undefined) {
      this.#workers[rank] = worker;
      const key = requestKeyOf(`${worker}/${this.#ranks.dpRankOf(rank)}`);
      this.#owned[rank] = chooseByRendezvous(key, this.#routers) === this.#own;
    }
    return this.#owned[rank] ?? false;
  }
}
