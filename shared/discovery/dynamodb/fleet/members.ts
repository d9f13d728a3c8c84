/** A live process in the fleet. */
export interface Member {
  readonly leaseId: string;
  readonly epoch: number;
  /** Number that each change of the records increments. */
  readonly rev: number;
  /** Its packed records, one after the other (`packBlock`). */
  readonly block: Uint8Array;
  /** Packed loads of its workers (`packLoads`); no bytes = not known. */
  readonly load: Uint8Array;
}

/** The live processes by lease id. */
export type Fleet = ReadonlyMap<string, Member>;

/** Whether `one` is an earlier state of the same process than `other`. */
export function isEarlier(
  one: { readonly epoch: number; readonly rev: number },
  other: { readonly epoch: number; readonly rev: number },
): boolean {
  return one.epoch < other.epoch || (one.epoch === other.epoch && one.rev < other.rev);
}

/**
 * Keeps an older view from undoing what this process has itself read of the leases. Such a view may be some seconds
 * old. It may lack a process that this one knows, or still contain one that has left. Without this class, that process
 * would disappear and come back, which ends its requests.
 *
 *     own reading ------------- graceMs ------------> only views
 *
 * In between, processes that only the own reading has stay, and processes that it no longer had stay away. Of two
 * states of a process the later one counts.
 */
export class ReadingMerge {
  readonly #graceMs: number;
  #own: Fleet = new Map();
  /** Processes as last known, by lease id. */
  #gone: Fleet = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /**
   * @param shownBefore processes known until this reading
   */
  read(own: Fleet, shownBefore: Fleet, nowMs: number): void {
    const gone = new Map(nowMs - this.#readAtMs < this.#graceMs ? this.#gone : []);
    for (const [leaseId, member] of shownBefore) gone.set(leaseId, member);
    for (const leaseId of own.keys()) gone.delete(leaseId);
    this.#gone = gone;
    this.#own = own;
    this.#readAtMs = nowMs;
  }

  /** Returns the known processes, after `view` was read. */
  with(view: Fleet, nowMs: number): Fleet {
    if (nowMs - this.#readAtMs >= this.#graceMs) {
      if (this.#own.size > 0) [this.#own, this.#gone] = [new Map(), new Map()];
      return view;
    }
    const merged = new Map<string, Member>();
    for (const [leaseId, member] of view) {
      const [own, gone] = [this.#own.get(leaseId), this.#gone.get(leaseId)];
      if (own !== undefined) merged.set(leaseId, isEarlier(member, own) ? { ...own, load: member.load } : member);
      else if (gone === undefined || isEarlier(gone, member)) merged.set(leaseId, member);
    }
    for (const [leaseId, member] of this.#own) if (!merged.has(leaseId)) merged.set(leaseId, member);
    return merged;
  }
}
