import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { RankWeight } from '../scheduler/types.ts';
import { addLoad, combineLoad, isNoLoad, NO_LOAD, subtractLoad } from './load-amounts.ts';
import type { PoolAddress, RouterState } from './types.ts';

/** What a worker says of one of its ranks when it is asked. */
export interface RankReading {
  readonly dpRank: number;
  readonly active: RankWeight;
  readonly kvUsedBlocks: number;
}

export interface CounterReporterOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Between two reports of a load that changes. @default 1000 */
  readonly intervalMs?: number;
  /** Between two reports of a load that does not. @default 5000 */
  readonly idleIntervalMs?: number;
  read(): readonly RankReading[];
  /** Hears of reports that failed; the next one replaces them. */
  onProblem(problem: unknown): void;
}

interface RankState {
  readonly arrivals: ArrivalLedger;
  number: number;
  isUnderWay: boolean;
  failures: number;
  /** Not before this, after a failure. */
  pausedUntilMs: number;
  sentAtMs: number;
  /** When a changed load is due, jittered. */
  dueAtMs: number;
  last: RankReading | undefined;
  lastAcked: RankWeight | undefined;
}

const INTERVAL_MS = 1000;
const IDLE_INTERVAL_MS = 5000;
/** Looks for a large change in one interval. */
const LOOKS = 4;
const JITTER = 0.1; // also moves the looks against the writes of deciders, see ArrivalLedger
const PAUSE_MS_MAX = 5000;
/** A change is large when it is a quarter of what was there, and at least this. */
const LARGE: RankWeight = { requests: 8, decodeBlocks: 512, prefillTokens: 8192 };
const LARGE_SHARE = 0.25;

/**
 * Keeps the worker's side of the shared counters: every rank each second while its load changes, at once on a large change,
 * seldom when nothing does. A report replaces all earlier ones, so one that is lost costs nothing but time.
 */
export class CounterReporter {
  readonly #options: CounterReporterOptions;
  readonly #intervalMs: number;
  readonly #ranks = new Map<number, RankState>(); // bounded by the worker's ranks
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;

  constructor(options: CounterReporterOptions) {
    this.#options = options;
    this.#intervalMs = options.intervalMs ?? INTERVAL_MS;
  }

  /** Reports for the first time, which makes the ranks known to deciders. */
  start(): void {
    this.#timer = this.#options.clock.every(this.#intervalMs / LOOKS, () => this.#look());
    this.#look();
  }

  /** A request came that its decider had reserved `amounts` for at this rank. */
  arrived(dpRank: number, amounts: RankWeight): void {
    this.#rankOf(dpRank).arrivals.arrived(amounts);
  }

  /** Ends the reports and withdraws the ranks, for `timeoutMs` at most. */
  async stop(timeoutMs: number): Promise<void> {
    const { state, pool, workerId, clock, onProblem } = this.#options;
    this.#timer?.cancel();
    this.#stopping.abort(new Error('the worker stops'));
    const patience = new AbortController();
    const deadline = clock.after(timeoutMs, () => patience.abort(new Error('withdrawing took too long')));
    try {
      await Promise.all(
        [...this.#ranks.keys()].map((dpRank) => state.withdraw(pool, { workerId, dpRank }, patience.signal)),
      );
    } catch (problem) {
      onProblem(problem); // what is left is cleared by the table
    } finally {
      deadline.cancel();
    }
  }

  #look(): void {
    for (const reading of this.#options.read()) {
      const rank = this.#rankOf(reading.dpRank);
      if (!rank.isUnderWay && this.#isDue(rank, reading)) void this.#report(rank, reading); // never rejects
    }
  }

  #isDue(rank: RankState, reading: RankReading): boolean {
    const nowMs = this.#options.clock.nowMs();
    if (nowMs < rank.pausedUntilMs) return false;
    if (rank.last === undefined) return true;
    if (nowMs - rank.sentAtMs >= (this.#options.idleIntervalMs ?? IDLE_INTERVAL_MS)) return true;
    if (isLargeChange(rank.last.active, reading.active)) return true;
    if (nowMs < rank.dueAtMs) return false;
    const hasSettled = rank.arrivals.acked !== rank.lastAcked; // something arrived, or was written off
    return hasSettled || rank.arrivals.isUnsettled || isChanged(rank.last, reading);
  }

  async #report(rank: RankState, reading: RankReading): Promise<void> {
    const { state, pool, workerId, clock, random, onProblem } = this.#options;
    const { dpRank, active, kvUsedBlocks } = reading;
    const { acked } = rank.arrivals;
    rank.isUnderWay = true;
    rank.sentAtMs = clock.nowMs();
    rank.dueAtMs = rank.sentAtMs + this.#intervalMs * (1 - JITTER + 2 * JITTER * random.next());
    const report = { rank: { workerId, dpRank }, number: ++rank.number, active, acked, kvUsedBlocks };
    try {
      const reserved = await state.report(pool, report, this.#stopping.signal);
      rank.arrivals.observe(clock.nowMs(), reserved, acked);
      rank.last = reading;
      rank.lastAcked = acked;
      rank.failures = 0;
    } catch (problem) {
      if (this.#stopping.signal.aborted) return;
      const pauseMs = Math.min(this.#intervalMs * 2 ** rank.failures++, PAUSE_MS_MAX);
      rank.pausedUntilMs = clock.nowMs() + pauseMs * (0.5 + random.next() / 2);
      onProblem(problem);
    } finally {
      rank.isUnderWay = false;
    }
  }

  #rankOf(dpRank: number): RankState {
    const known = this.#ranks.get(dpRank);
    if (known !== undefined) return known;
    const rank: RankState = {
      arrivals: new ArrivalLedger(2 * this.#intervalMs),
      number: 0,
      isUnderWay: false,
      failures: 0,
      pausedUntilMs: 0,
      sentAtMs: 0,
      dueAtMs: 0,
      last: undefined,
      lastAcked: undefined,
    };
    this.#ranks.set(dpRank, rank);
    return rank;
  }
}

function isChanged(last: RankReading, now: RankReading): boolean {
  const { requests, decodeBlocks, prefillTokens } = combineLoad(last.active, now.active, (a, b) => Math.abs(a - b));
  return requests + decodeBlocks + prefillTokens > 0 || last.kvUsedBlocks !== now.kvUsedBlocks;
}

function isLargeChange(last: RankWeight, now: RankWeight): boolean {
  const bounds = combineLoad(last, LARGE, (before, large) => Math.max(LARGE_SHARE * before, large));
  const changes = combineLoad(last, now, (before, after) => Math.abs(after - before));
  const { requests, decodeBlocks, prefillTokens } = combineLoad(changes, bounds, (change, bound) => change - bound);
  return requests >= 0 || decodeBlocks >= 0 || prefillTokens >= 0;
}

interface Sample {
  readonly atMs: number;
  /** What was reserved and had not arrived; negative where more arrived than was known to be reserved. */
  readonly missing: RankWeight;
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
  #acked: RankWeight = NO_LOAD;
  #samples: Sample[] = []; // bounded: those of the long window, at the pace of reports

  /** @param windowMs two report intervals */
  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** What arrived, and what was written off. */
  get acked(): RankWeight {
    return this.#acked;
  }

  /** Reservations and arrivals did not match at the last look. */
  get isUnsettled(): boolean {
    const last = this.#samples.at(-1);
    return last !== undefined && !isNoLoad(last.missing);
  }

  /** A request came that its decider had reserved `amounts` for. */
  arrived(amounts: RankWeight): void {
    this.#acked = addLoad(this.#acked, amounts);
  }

  /** A report that said `acked` was answered with `reserved`. */
  observe(nowMs: number, reserved: RankWeight, acked: RankWeight): void {
    this.#samples.push({ atMs: nowMs, missing: subtractLoad(reserved, acked) });
    this.#forgetBefore(nowMs - EXCESS_WINDOWS * this.#windowMs);
    const lost = this.#extreme(nowMs - this.#windowMs, Math.min);
    if (lost !== undefined) this.#settle(combineLoad(lost, NO_LOAD, Math.max));
    const excess = this.#extreme(nowMs - EXCESS_WINDOWS * this.#windowMs, Math.max);
    if (excess !== undefined) this.#settle(combineLoad(excess, NO_LOAD, Math.min));
  }

  #settle(correction: RankWeight): void {
    if (isNoLoad(correction)) return;
    this.#acked = addLoad(this.#acked, correction);
    this.#samples = this.#samples.map(({ atMs, missing }) => ({ atMs, missing: subtractLoad(missing, correction) }));
  }

  /** The extreme of every sample since `fromMs`, and of the last one before; undefined when there is none so old. */
  #extreme(fromMs: number, pick: (left: number, right: number) => number): RankWeight | undefined {
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
