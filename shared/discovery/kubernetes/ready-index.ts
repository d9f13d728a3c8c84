import type { ReadyNames } from './objects.ts';

/**
 * Ready processes, by the name of their object, out of many slices or pods. A name that is ready with two uids is left
 * out: one of them is of a pod that is gone.
 */
export class ReadyIndex {
  /** Ready names by the slice or pod that has them. */
  readonly #sources = new Map<string, ReadyNames>();
  /** Uids by name, and for each the sources that have it. */
  readonly #uids = new Map<string, Map<string, Set<string>>>();

  /** Uid of the pod of a ready process; undefined if it is not ready. */
  uidOf(name: string): string | undefined {
    const uids = this.#uids.get(name);
    if (uids?.size !== 1) return undefined;
    for (const uid of uids.keys()) return uid;
    return undefined;
  }

  /** Replaces what one source has; nothing = the source is gone. Returns the names that may have changed. */
  set(source: string, ready: ReadyNames): ReadonlySet<string> {
    const before = this.#sources.get(source) ?? new Map<string, string>();
    const changed = new Set<string>();
    for (const [name, uid] of before) {
      if (ready.get(name) === uid) continue;
      this.#remove(name, uid, source);
      changed.add(name);
    }
    for (const [name, uid] of ready) {
      if (before.get(name) === uid) continue;
      this.#add(name, uid, source);
      changed.add(name);
    }
    if (ready.size > 0) this.#sources.set(source, ready);
    else this.#sources.delete(source);
    return changed;
  }

  /** Replaces everything. Returns the names that may have changed. */
  replace(sources: ReadonlyMap<string, ReadyNames>): ReadonlySet<string> {
    const changed = new Set<string>();
    for (const source of [...this.#sources.keys()]) {
      if (sources.has(source)) continue;
      for (const name of this.set(source, new Map())) changed.add(name);
    }
    for (const [source, ready] of sources) for (const name of this.set(source, ready)) changed.add(name);
    return changed;
  }

  #add(name: string, uid: string, source: string): void {
    const uids = this.#uids.get(name) ?? new Map<string, Set<string>>();
    this.#uids.set(name, uids);
    uids.set(uid, (uids.get(uid) ?? new Set<string>()).add(source));
  }

  #remove(name: string, uid: string, source: string): void {
    const uids = this.#uids.get(name);
    const sources = uids?.get(uid);
    sources?.delete(source);
    if (sources?.size === 0) uids?.delete(uid);
    if (uids?.size === 0) this.#uids.delete(name);
  }
}
