import { requestKeyOf } from '../../protocol/generation/index.ts';

/**
 * The requests of this process that have not ended, by the ids that their clients may know. Bounded by the responses under
 * way: an entry lives from the start of the work to its end.
 */
export class RunningRequests {
  readonly #cancels = new Map<string, Set<() => void>>();

  /**
   * @param ids the server's request id and the client's `x-request-id`, which need not be its alone
   * @returns takes the request out again
   */
  add(ids: readonly string[], cancel: () => void): () => void {
    const keys = ids.map(requestKeyOf);
    for (const key of keys) {
      const known = this.#cancels.get(key);
      if (known === undefined) this.#cancels.set(key, new Set([cancel]));
      else known.add(cancel);
    }
    return () => {
      for (const key of keys) this.#remove(key, cancel);
    };
  }

  /** Cancels what runs under a response or request id; false when nothing does. */
  cancel(id: string): boolean {
    const found = this.#cancels.get(requestKeyOf(id));
    if (found === undefined) return false;
    for (const cancel of [...found]) cancel();
    return true;
  }

  #remove(key: string, cancel: () => void): void {
    const known = this.#cancels.get(key);
    if (known?.delete(cancel) === true && known.size === 0) this.#cancels.delete(key);
  }
}
