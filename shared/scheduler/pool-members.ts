import { poolName, type RoutableWorker, type WorkerPool } from '../router/index.ts';

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
  /** Ids of those. */
  #ids = new Set<string>();
  /** The sets that those were taken from; the workers of the others are among them. */
  #sources = new Set<PoolMember<Worker>>();

  /** Everybody, once. */
  get all(): readonly Worker[] {
    return this.#all;
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  /** The set of that name; made, without workers, where there is none. It stays the same while its workers change. */
  of(facts: WorkerPool): PoolMember<Worker> {
    const name = poolName(facts);
    const known = this.#members.get(name);
    if (known !== undefined) return known;
    const member = { facts, workers: NOBODY, byId: new Map(), ids: new Set<string>(), waits: new Set<never>() };
    this.#members.set(name, member);
    return member;
  }

  /** The workers of one set as they are now. True when others than before are in the pool. */
  set({ facts }: PoolMember<Worker>, workers: readonly Worker[]): boolean {
    const member = this.#members.get(poolName(facts));
    if (member === undefined || member.workers === workers) return false;
    member.workers = workers;
    member.byId = new Map(workers.map((worker) => [worker.id, worker]));
    for (const id of member.ids) if (!member.byId.has(id)) member.ids.delete(id);
    for (const id of member.byId.keys()) member.ids.add(id);
    return this.#isSource(member) && this.#unite();
  }

  /** The set is gone; its requests that wait hear `reason`. */
  remove(facts: WorkerPool, reason: unknown): void {
    const member = this.#members.get(poolName(facts));
    if (member === undefined) return;
    this.#members.delete(poolName(facts));
    for (const end of [...member.waits]) end(reason);
    if (this.#sources.has(member)) this.#unite();
  }

  /** The workers that a request of the set is narrowed to; undefined where it may go to anybody in the pool. */
  narrowing({ facts, ids }: PoolMember<Worker>): ReadonlySet<string> | undefined {
    return facts.base === undefined && ids.size === this.#all.length ? undefined : ids;
  }

  /**
   * Whether the list of everybody depends on the set. Hardly an adapter's does, and each of hundreds is told at every
   * change.
   */
  #isSource(member: PoolMember<Worker>): boolean {
    if (member.facts.base === undefined || this.#sources.has(member)) return true;
    return member.workers.some(({ id }) => !this.#ids.has(id));
  }

  #unite(): boolean {
    const before = this.#all;
    const sets = [...this.#members.values()].sort(({ facts: a }, { facts: b }) => rankOf(a) - rankOf(b));
    const [first, ...others] = sets;
    let all = first?.workers ?? NOBODY;
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

/** The base model's own workers come first. */
function rankOf({ base }: WorkerPool): number {
  return base === undefined ? 0 : 1;
}
