import { poolName, type RoutableWorker, type WorkerPool } from '../router/index.ts';

/** One worker set of those that share a live pool. */
export interface PoolMember<Worker extends RoutableWorker> {
  readonly facts: WorkerPool;
  /** Workers as `set` received them last. */
  readonly workers: readonly Worker[];
  readonly byId: ReadonlyMap<string, Worker>;
  /**
   * Ids of those workers. The set object stays the same while they change, so waiting requests go by the current
   * workers.
   */
  readonly ids: ReadonlySet<string>;
  /** Functions that end the waits of its requests. */
  readonly waits: Set<(reason: unknown) => void>;
}

interface Member<Worker extends RoutableWorker> extends PoolMember<Worker> {
  workers: readonly Worker[];
  byId: ReadonlyMap<string, Worker>;
  readonly ids: Set<string>;
}

const NO_WORKERS: readonly never[] = [];

/** The workers in a live pool: those of a base model, and those of its adapters, which are among them. */
export class PoolMembers<Worker extends RoutableWorker> {
  readonly #members = new Map<string, Member<Worker>>(); // bounded by the models in discovery
  #all: readonly Worker[] = NO_WORKERS;
  /** Ids of the workers in `all`. */
  #ids = new Set<string>();
  /** Sets that supply the workers of `all`. The workers of the other sets are among them. */
  #sources = new Set<PoolMember<Worker>>();

  /** All workers of the pool, each once. */
  get all(): readonly Worker[] {
    return this.#all;
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  /** Returns the set of that name, or creates it without workers. It stays the same object while its workers change. */
  of(facts: WorkerPool): PoolMember<Worker> {
    const name = poolName(facts);
    const known = this.#members.get(name);
    if (known !== undefined) return known;
    const member = { facts, workers: NO_WORKERS, byId: new Map(), ids: new Set<string>(), waits: new Set<never>() };
    this.#members.set(name, member);
    return member;
  }

  /** Sets the workers of one set. Returns true if the pool has other workers than before. */
  set({ facts }: PoolMember<Worker>, workers: readonly Worker[]): boolean {
    const member = this.#members.get(poolName(facts));
    if (member === undefined || member.workers === workers) return false;
    member.workers = workers;
    member.byId = new Map(workers.map((worker) => [worker.id, worker]));
    for (const id of member.ids) if (!member.byId.has(id)) member.ids.delete(id);
    for (const id of member.byId.keys()) member.ids.add(id);
    return this.#isSource(member) && this.#unite();
  }

  /** Removes the set. Its waiting requests end with `reason`. */
  remove(facts: WorkerPool, reason: unknown): void {
    const member = this.#members.get(poolName(facts));
    if (member === undefined) return;
    this.#members.delete(poolName(facts));
    for (const end of [...member.waits]) end(reason);
    if (this.#sources.has(member)) this.#unite();
  }

  /**
   * Returns the ids of the workers that a request of the set may go to; undefined if it may go to any worker of the
   * pool.
   */
  narrowing({ facts, ids }: PoolMember<Worker>): ReadonlySet<string> | undefined {
    return facts.base === undefined && ids.size === this.#all.length ? undefined : ids;
  }

  /**
   * Whether the list of all workers depends on the set. An adapter's rarely does, and each of hundreds gets its workers
   * at every change.
   */
  #isSource(member: PoolMember<Worker>): boolean {
    if (member.facts.base === undefined || this.#sources.has(member)) return true;
    return member.workers.some(({ id }) => !this.#ids.has(id));
  }

  #unite(): boolean {
    const before = this.#all;
    const sets = [...this.#members.values()].sort(({ facts: a }, { facts: b }) => rankOf(a) - rankOf(b));
    const [first, ...others] = sets;
    let all = first?.workers ?? NO_WORKERS;
    const ids = new Set(first?.ids);
    const sources = new Set<PoolMember<Worker>>(first === undefined ? [] : [first]);
    for (const member of others) {
      const more = member.workers.filter(({ id }) => !ids.has(id));
      if (more.length === 0) continue;
      for (const { id } of more) ids.add(id);
      all = [...all, ...more];
      sources.add(member);
    }
    this.#all = all;
    this.#ids = ids;
    this.#sources = sources;
    return all !== before;
  }
}

/** Returns the order of a set: the base model's own workers come first. */
function rankOf({ base }: WorkerPool): number {
  return base === undefined ? 0 : 1;
}
