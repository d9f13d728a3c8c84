/** Runs pieces of work one after another, in the order of the calls, so that a renewal and a write cannot cross. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Resolves or rejects as `work` does; a failure does not stop what comes after it. When `signal` aborts while the work
   * still waits for its turn, it is dropped and the call rejects at once; work under way watches its own signal.
   */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const waiting = new AbortController(); // rejects only until the turn comes
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      waiting.abort();
      return work();
    });
    this.#last = result.catch(() => {}); // told to this caller; the next one only waits
    if (signal === undefined) return result;
    const dropped = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: waiting.signal });
    });
    return Promise.race([result, dropped]);
  }
}
