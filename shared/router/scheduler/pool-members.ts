import { poolName, type RoutableWorker, type WorkerPool } from '../router.ts';

/** One worker set among those that share a live pool. */
export interface PoolMember<Worker extends RoutableWorker> {
  readonly facts: WorkerPool;
  /** As `set` was told last. */
  readonly workers: readonly Worker[];
  readonly byId: ReadonlyMap<string, Worker>;
  /** Ids of those; the same set as they change, so that who waits goes by those of then. */
  readonly ids: ReadonlySet<string>;
  /** What ends the waits of its requests. */
  readonly waits: Set<(reason: unknown) => void>;
}

interface Member<Worker extends RoutableWorker> extends PoolMember<Worker> {
  workers: readonly Worker[];
  byId: ReadonlyMap<string, Worker>;
  readonly ids: Set<string>;
}

const NOBODY: readonly never[] = [];

/** Who is in a live pool: the workers of a base model and those of its adapters, which are among them. */
export class PoolMembers<Worker extends RoutableWorker> {
  readonly #members = new Map<string, Member<Worker>>(); // bounded by the models in discovery
  #all: readonly Worker[] = NOBODY;

  /** Everybody, once. */
  get all(): readonly Worker[] {
    return this.#all;
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  find(facts: WorkerPool): PoolMember<Worker> | undefined {
    return this.#members.get(poolName(facts));
  }

  /** The workers of one set as they are now. True when others than before are in the pool. */
  set(facts: WorkerPool, workers: readonly Worker[]): boolean {
    const name = poolName(facts);
    const known = this.#members.get(name);
    if (known?.workers === workers) return false;
    const ids = known?.ids ?? new Set<string>();
    const byId = new Map(workers.map((worker) => [worker.id, worker]));
    for (const id of ids) if (!byId.has(id)) ids.delete(id);
    for (const id of byId.keys()) ids.add(id);
    if (known === undefined) this.#members.set(name, { facts, workers, byId, ids, waits: new Set() });
    else Object.assign(known, { workers, byId });
    return this.#unite();
  }

  /** The set is gone; its requests that wait hear `reason`. */
  remove(facts: WorkerPool, reason: unknown): void {
    const member = this.#members.get(poolName(facts));
    if (member === undefined) return;
    this.#members.delete(poolName(facts));
    for (const end of [...member.waits]) end(reason);
    this.#unite();
  }

  /** The workers that a request of the set is narrowed to; undefined where it may go to anybody in the pool. */
  narrowing({ facts, ids }: PoolMember<Worker>): ReadonlySet<string> | undefined {
    return facts.base === undefined && ids.size === this.#all.length ? undefined : ids;
  }

  #unite(): boolean {
    const before = this.#all;
    const sets = [...this.#members.values()].sort(({ facts: a }, { facts: b }) => rankOf(a) - rankOf(b));
    const [first, ...others] = sets;
    let all = first?.workers ?? NOBODY;
    const seen = new Set(first?.ids);
    for (const { workers } of others) {
      const more = workers.filter(({ id }) => !seen.has(id));
      for (const { id } of more) seen.add(id);
      if (more.length > 0) all = [...all, ...more];
    }
    this.#all = all;
    return all !== before;
  }
}

/** The base model's own workers come first. */
function rankOf({ base }: WorkerPool): number {
  return base === undefined ? 0 : 1;
}
