const UUID = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/i;

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
    const keys = ids.map(keyOf);
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
    const found = this.#cancels.get(keyOf(id));
    if (found === undefined) return false;
    for (const cancel of [...found]) cancel();
    return true;
  }

  #remove(key: string, cancel: () => void): void {
    const known = this.#cancels.get(key);
    if (known?.delete(cancel) === true && known.size === 0) this.#cancels.delete(key);
  }
}

/** `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and `<uuid>-<index>` of a batch all name the request `<uuid>`. */
function keyOf(id: string): string {
  const uuid = UUID.exec(id)?.[0];
  return uuid === undefined ? id : uuid.replaceAll('-', '').toLowerCase();
}
