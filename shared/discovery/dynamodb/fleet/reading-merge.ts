import { type Fleet, isEarlier, type Member } from './member.ts';

/**
 * Keeps what this process has read of the leases itself from being undone by a view that was gathered before: such a view may
 * be some seconds old, and what it does not have yet, or still has, would come and go, which ends requests under way.
 *
 *   own reading ------------- graceMs ------------> views alone
 *     what only it has stays; what it no longer had stays away; of two states of a process the later one counts
 */
export class ReadingMerge {
  readonly #graceMs: number;
  #own: Fleet = new Map();
  /** As last known, by lease id. */
  #gone: Fleet = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /** @param shownBefore what was known until this reading */
  read(own: Fleet, shownBefore: Fleet, nowMs: number): void {
    const gone = new Map(nowMs - this.#readAtMs < this.#graceMs ? this.#gone : []);
    for (const [leaseId, member] of shownBefore) gone.set(leaseId, member);
    for (const leaseId of own.keys()) gone.delete(leaseId);
    this.#gone = gone;
    this.#own = own;
    this.#readAtMs = nowMs;
  }

  /** What is known now that `view` is there. */
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
