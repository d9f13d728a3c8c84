/** Requests under way at each worker, as this process sees them. */
export class InFlight {
  readonly #counts = new Map<string, number>(); // bounded by the number of workers: a count that falls to 0 is dropped

  of(workerId: string): number {
    return this.#counts.get(workerId) ?? 0;
  }

  add(workerId: string): void {
    this.#counts.set(workerId, this.of(workerId) + 1);
  }

  remove(workerId: string): void {
    const left = this.of(workerId) - 1;
    if (left > 0) this.#counts.set(workerId, left);
    else this.#counts.delete(workerId);
  }

  /** Workers with at least one request. */
  get size(): number {
    return this.#counts.size;
  }
}
