import type { KvEvent } from '../engines/index.ts';
import { KvJournal, Scheduler, type SchedulerOptions } from '../engines/mocker/index.ts';
import type { GapHistogram } from './gap-histogram.ts';
import type { SimulatedRequest } from './simulated-request.ts';

/** What is looked at besides first tokens and ends. */
export interface RankNotes {
  readonly gaps: GapHistogram;
  /** Keep the changes of the cache as events. */
  readonly hasJournal: boolean;
  /** Note which outputs reached another block. */
  readonly notesGrowth: boolean;
}

/** One data-parallel rank of a worker: the mock engine's scheduler, and what its last pass brought to light. */
export class SimulatedRank {
  readonly worker: number;
  readonly dpRank: number;
  readonly gaps: GapHistogram;
  /** Requests that got their first token in the pass that ended last. */
  readonly firstTokens: SimulatedRequest[] = [];
  /** Requests whose output reached another block in it; only with `notesGrowth`. */
  readonly grown: SimulatedRequest[] = [];
  /** Block size where growth is noted, else 0. */
  readonly growthBlockTokens: number;
  /** Requests that ended in it. */
  readonly finished: SimulatedRequest[] = [];
  passEndMs = 0;
  inPass = false;
  /** Time spent in passes. */
  busyMs = 0;
  requests = 0;
  promptTokens = 0;
  /** Blocks in use, summed over time. */
  activeBlockMs = 0;
  readonly #scheduler: Scheduler;
  readonly #journal: KvJournal | undefined;

  constructor(worker: number, dpRank: number, options: SchedulerOptions, notes: RankNotes) {
    this.worker = worker;
    this.dpRank = dpRank;
    this.gaps = notes.gaps;
    this.growthBlockTokens = notes.notesGrowth ? options.blockSizeTokens : 0;
    this.#journal = notes.hasJournal ? new KvJournal(dpRank) : undefined;
    this.#scheduler = new Scheduler(options, this.#journal);
  }

  /** Requests that run or wait. */
  get load(): number {
    return this.#scheduler.runningCount + this.#scheduler.waitingCount;
  }

  get isIdle(): boolean {
    return this.#scheduler.isIdle;
  }

  take(request: SimulatedRequest, nowMs: number): void {
    request.rank = this;
    request.dispatchedMs = nowMs;
    this.requests++;
    this.promptTokens += request.promptLength;
    this.#scheduler.submit(request);
  }

  /** Starts the next pass; it ends at `passEndMs`. */
  startPass(nowMs: number): void {
    const durationMs = this.#scheduler.startPass();
    this.inPass = true;
    this.passEndMs = nowMs + durationMs;
    this.busyMs += durationMs;
    this.activeBlockMs += durationMs * this.#scheduler.pool.active;
  }

  /** Ends the pass: fills `firstTokens` and `finished`, and returns what happened to the cache. */
  finishPass(): readonly KvEvent[] {
    if (this.firstTokens.length > 0) this.firstTokens.length = 0;
    if (this.grown.length > 0) this.grown.length = 0;
    if (this.finished.length > 0) this.finished.length = 0;
    this.inPass = false;
    this.#scheduler.finishPass();
    return this.#journal?.drain() ?? NO_EVENTS;
  }
}

const NO_EVENTS: readonly KvEvent[] = [];
