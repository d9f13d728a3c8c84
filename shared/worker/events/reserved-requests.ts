/** Ids kept for one report; a worker takes no more requests than that in a second. */
const IDS_MAX = 65_536;

/** Requests that have come and gone since the last report. */
export interface RequestsReport {
  readonly arrived: readonly string[];
  readonly left: readonly string[];
}

/**
 * Requests for which a router in another process holds a place, as they come and go: the worker reports them, so that the
 * place is kept as long as they are here and no longer. Ids that do not fit are left to the limits of
 * the router.
 */
export class ReservedRequests {
  #arrived: string[] = [];
  #left: string[] = [];

  arrived(requestId: string): void {
    if (this.#arrived.length < IDS_MAX) this.#arrived.push(requestId);
  }

  left(requestId: string): void {
    if (this.#left.length < IDS_MAX) this.#left.push(requestId);
  }

  /** What has happened since it was asked last; undefined = nothing. */
  take(): RequestsReport | undefined {
    if (this.#arrived.length === 0 && this.#left.length === 0) return undefined;
    const report = { arrived: this.#arrived, left: this.#left };
    this.#arrived = [];
    this.#left = [];
    return report;
  }
}
