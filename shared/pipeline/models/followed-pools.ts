import type { Router, WorkerPool } from '../../router/index.ts';
import type { Worker, WorkersOfPool } from './routable-model.ts';

/** Passes the workers of each pool to a router, as the models change. */
export class FollowedPools {
  readonly #router: Pick<Router<Worker>, 'setWorkers' | 'removePool'>;
  #pools: ReadonlyMap<string, WorkerPool> = new Map();

  constructor(router: Pick<Router<Worker>, 'setWorkers' | 'removePool'>) {
    this.#router = router;
  }

  /** Applies the present worker sets (`workerSetsOf`, without aliases). */
  follow(sets: readonly WorkersOfPool[]): void {
    const present = new Map(sets.map(({ pool }) => [`${pool.role} ${pool.key}`, pool]));
    for (const [name, pool] of this.#pools) if (!present.has(name)) this.#router.removePool(pool);
    this.#pools = present;
    for (const { pool, workers } of sets) this.#router.setWorkers(pool, workers);
  }
}
