/** Runs pieces of work one after another, in the order of the calls, so that a renewal and a write cannot cross. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves or rejects as `work` does; a failure does not stop what comes after it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {}); // told to this caller; the next one only waits
    return result;
  }
}
