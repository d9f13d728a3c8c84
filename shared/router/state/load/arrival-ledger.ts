import { addLoad, combineLoad, isNoLoad, type LoadAmounts, NO_LOAD, subtractLoad } from './load-amounts.ts';

interface Sample {
  readonly atMs: number;
  /** What was reserved and had not arrived; negative where more arrived than was known to be reserved. */
  readonly missing: LoadAmounts;
}

/** Excess is looked at for longer than loss: a decider that gathers its writes is always a little late. */
const EXCESS_WINDOWS = 5;

/**
 * The worker's side of the reservations of one rank: counts what arrived, and settles what never will. A request whose
 * decider died after reserving is missing from every look for `windowMs`, and is then written off; the requests that are
 * merely on their way are others from look to look, so the least that was ever missing is what is lost. The same holds the
 * other way round for requests that arrived and were never written down.
 */
export class ArrivalLedger {
  readonly #windowMs: number;
  #acked: LoadAmounts = NO_LOAD;
  #samples: Sample[] = []; // bounded: those of the long window, at the pace of reports

  /** @param windowMs two report intervals */
  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** What arrived, and what was written off. */
  get acked(): LoadAmounts {
    return this.#acked;
  }

  /** Reservations and arrivals did not match at the last look. */
  get isUnsettled(): boolean {
    const last = this.#samples.at(-1);
    return last !== undefined && !isNoLoad(last.missing);
  }

  /** A request came that its decider had reserved `amounts` for. */
  arrived(amounts: LoadAmounts): void {
    this.#acked = addLoad(this.#acked, amounts);
  }

  /** A report that said `acked` was answered with `reserved`. */
  observe(nowMs: number, reserved: LoadAmounts, acked: LoadAmounts): void {
    this.#samples.push({ atMs: nowMs, missing: subtractLoad(reserved, acked) });
    this.#forgetBefore(nowMs - EXCESS_WINDOWS * this.#windowMs);
    const lost = this.#extreme(nowMs - this.#windowMs, Math.min);
    if (lost !== undefined) this.#settle(combineLoad(lost, NO_LOAD, Math.max));
    const excess = this.#extreme(nowMs - EXCESS_WINDOWS * this.#windowMs, Math.max);
    if (excess !== undefined) this.#settle(combineLoad(excess, NO_LOAD, Math.min));
  }

  #settle(correction: LoadAmounts): void {
    if (isNoLoad(correction)) return;
    this.#acked = addLoad(this.#acked, correction);
    this.#samples = this.#samples.map(({ atMs, missing }) => ({ atMs, missing: subtractLoad(missing, correction) }));
  }

  /** The extreme of every sample since `fromMs`, and of the last one before; undefined when there is none so old. */
  #extreme(fromMs: number, pick: (left: number, right: number) => number): LoadAmounts | undefined {
    const first = this.#samples.findLastIndex(({ atMs }) => atMs <= fromMs);
    if (first < 0) return undefined;
    return this.#samples
      .slice(first)
      .map(({ missing }) => missing)
      .reduce((left, right) => combineLoad(left, right, pick));
  }

  /** Keeps one sample that is older than `fromMs`. */
  #forgetBefore(fromMs: number): void {
    const first = this.#samples.findLastIndex(({ atMs }) => atMs <= fromMs);
    if (first > 0) this.#samples.splice(0, first);
  }
}
