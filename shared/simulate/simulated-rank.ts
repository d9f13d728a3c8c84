import {
  BlockJournal,
  type KvEvent,
  Scheduler,
  type SchedulerOptions,
  Sequence,
  toKvEvents,
} from '../engines/index.ts';
import type { ForwardPass } from '../planner/index.ts';
import type { PoolRole } from '../router/index.ts';
import type { GapHistogram } from './percentiles.ts';
import type { WorkloadNames } from './workload.ts';

/** Observations besides first tokens and ends. */
interface RankNotes {
  readonly gaps: GapHistogram;
  /** Keep the changes of the cache as events. */
  readonly hasJournal: boolean;
  /** Note which outputs reached another block. */
  readonly notesGrowth: boolean;
}

/** One data-parallel rank of a worker: the mock engine's scheduler, and the results of its last pass. */
export class SimulatedRank {
  readonly role: PoolRole;
  /** Its place among the ranks of the fleet. */
  readonly at: number;
  /** Its place among the ranks of its pool. */
  readonly inPool: number;
  /** Its number in its pool. */
  readonly worker: number;
  readonly dpRank: number;
  readonly gaps: GapHistogram;
  /** Requests that got their first token in the pass that ended last. */
  readonly firstTokens: SimulatedRequest[] = [];
  /** Requests whose output reached another block in that pass; only with `notesGrowth`. */
  readonly grown: SimulatedRequest[] = [];
  /** Block size if growth is noted, otherwise 0. */
  readonly growthBlockTokens: number;
  /** Requests that ended in it. */
  readonly finished: SimulatedRequest[] = [];
  passEndMs = 0;
  inPass = false;
  /** Duration of the pass that was started last. */
  passMs = 0;
  /** Time spent in passes. */
  busyMs = 0;
  requests = 0;
  promptTokens = 0;
  /** Preemptions of requests that ended here. */
  outputTokens = 0;
  preemptions = 0;
  /** Blocks in use, summed over time. */
  activeBlockMs = 0;
  readonly #scheduler: Scheduler;
  readonly #journal: BlockJournal | undefined;
  readonly #lastWork = { prefills: 0, prefillStart: 0, prefillEnd: 0, decodes: 0, decodeContext: 0 };
  readonly #lastLeft = { requests: 0, tokens: 0, preempted: 0, preemptedTokens: 0 };
  #lastMs = 0;
  /** Requests that run or wait here. */
  readonly #underWay = new Set<SimulatedRequest>();

  constructor(
    { role, at, inPool, worker, dpRank }: Pick<SimulatedRank, 'role' | 'at' | 'inPool' | 'worker' | 'dpRank'>,
    options: SchedulerOptions,
    notes: RankNotes,
  ) {
    this.role = role;
    this.at = at;
    this.inPool = inPool;
    this.worker = worker;
    this.dpRank = dpRank;
    this.gaps = notes.gaps;
    this.growthBlockTokens = notes.notesGrowth ? options.blockSizeTokens : 0;
    this.#journal = notes.hasJournal ? new BlockJournal() : undefined;
    this.#scheduler = new Scheduler(options, this.#journal);
  }

  /** Requests that run or wait. */
  get load(): number {
    return this.#scheduler.runningCount + this.#scheduler.waitingCount;
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#scheduler.waitingCount;
  }

  get isIdle(): boolean {
    return this.#scheduler.isIdle;
  }

  /** The pass that ended last, as its engine would report it; undefined before the first one. */
  get lastPass(): ForwardPass | undefined {
    if (this.#lastMs === 0) return undefined;
    const { prefills, prefillStart, prefillEnd, decodes, decodeContext } = this.#lastWork;
    const { requests, tokens, preempted, preemptedTokens } = this.#lastLeft;
    return {
      workerId: `${this.worker}`,
      dpRank: this.dpRank,
      wallTimeS: this.#lastMs / 1000,
      prefillRequests: prefills,
      prefillTokens: prefillEnd - prefillStart,
      prefillKvTokens: prefillStart,
      decodeRequests: decodes,
      decodeKvTokens: decodeContext,
      queuedPrefillRequests: requests,
      queuedPrefillTokens: tokens,
      queuedDecodeRequests: preempted,
      queuedDecodeKvTokens: preemptedTokens,
    };
  }

  /** Blocks that requests hold. */
  get activeBlocks(): number {
    return this.#scheduler.pool.active;
  }

  /** Prompt tokens not computed yet. */
  get pendingPrefillTokens(): number {
    return this.#scheduler.pendingPrefillTokens;
  }

  take(request: SimulatedRequest): void {
    this.requests++;
    this.promptTokens += request.promptLength;
    this.#underWay.add(request);
    this.#scheduler.submit(request);
  }

  /** Drops everything, because the worker is lost. Returns the requests that ran or waited, in order of arrival. */
  evacuate(): readonly SimulatedRequest[] {
    const cut = [...this.#underWay];
    this.#underWay.clear();
    for (const request of cut) this.#scheduler.cancel(request);
    return cut;
  }

  /** Returns how many leading tokens of a request's prompt are in the cache now. */
  cachedTokens(request: SimulatedRequest): number {
    return this.#scheduler.cachedTokens(request);
  }

  /** Releases the blocks of a finished prompt, which were fetched. */
  letGo(request: SimulatedRequest): void {
    this.#scheduler.letGo(request);
  }

  /**
   * Starts the next pass, which ends at `passEndMs`. Returns false if finished prompts leave no room for any request.
   */
  startPass(nowMs: number): boolean {
    const durationMs = this.#scheduler.startPass();
    if (this.#scheduler.runningCount === 0) {
      this.#scheduler.finishPass();
      return false;
    }
    this.inPass = true;
    this.passEndMs = nowMs + durationMs;
    this.passMs = durationMs;
    this.busyMs += durationMs;
    this.activeBlockMs += durationMs * this.#scheduler.pool.active;
    return true;
  }

  /** Ends the pass: fills `firstTokens` and `finished`, and returns what happened to the cache. */
  finishPass(): readonly KvEvent[] {
    if (this.firstTokens.length > 0) this.firstTokens.length = 0;
    if (this.grown.length > 0) this.grown.length = 0;
    if (this.finished.length > 0) this.finished.length = 0;
    this.inPass = false;
    this.#lastMs = this.passMs;
    Object.assign(this.#lastWork, this.#scheduler.work);
    Object.assign(this.#lastLeft, this.#scheduler.left);
    this.#scheduler.finishPass();
    for (const request of this.finished) {
      this.#underWay.delete(request);
      this.outputTokens += request.outputTokens;
      this.preemptions += request.preemptions;
    }
    return this.#journal === undefined ? NO_EVENTS : toKvEvents(this.#journal.drain(), this.dpRank);
  }
}

const NO_EVENTS: readonly KvEvent[] = [];

/**
 * A request on its way through a pool: the work of its engine, and the times of its tokens. A request with a separate
 * prefill goes through two pools, as two of these.
 */
export class SimulatedRequest extends Sequence {
  override readonly names: WorkloadNames;
  /** Its place in the workload. */
  readonly index: number;
  /** Its name in the router. */
  readonly id: string;
  readonly outputTokens: number;
  /** When it reached a router. */
  readonly arrivedMs: number;
  /** The router that decides for it. */
  readonly router: number;
  rank: SimulatedRank | undefined;
  dispatchedMs = Number.NaN;
  firstTokenMs = Number.NaN;
  lastTokenMs = Number.NaN;
  /** Request that computed its prompt; undefined = it does so itself. */
  readonly prefill: SimulatedRequest | undefined;
  /** Time that the blocks of its prompt took to get here. */
  transferMs = 0;

  constructor(
    index: number,
    inputTokens: number,
    outputTokens: number,
    names: WorkloadNames,
    at: { readonly nowMs: number; readonly router: number },
    prefill?: SimulatedRequest,
  ) {
    super(inputTokens, names, inputTokens + outputTokens);
    this.names = names;
    this.index = index;
    this.id = `r${index}`;
    this.outputTokens = outputTokens;
    this.arrivedMs = at.nowMs;
    this.router = at.router;
    this.prefill = prefill;
    this.isTransferred = prefill !== undefined;
  }

  /**
   * Returns the same request for another worker, which computes its prompt again and continues the answer where it was
   * cut.
   */
  resumed(): SimulatedRequest {
    const { index, promptLength, outputTokens, names, arrivedMs: nowMs, router } = this;
    const next = new SimulatedRequest(index, promptLength, outputTokens - this.generated, names, { nowMs, router });
    next.firstTokenMs = this.firstTokenMs;
    next.lastTokenMs = this.lastTokenMs;
    return next;
  }

  emit(): boolean {
    const rank = this.rank!; // it was dispatched, or it would not run
    const nowMs = rank.passEndMs;
    if (this.length === this.promptLength) rank.firstTokens.push(this);
    if (Number.isNaN(this.firstTokenMs)) this.firstTokenMs = nowMs;
    else rank.gaps.add(nowMs - this.lastTokenMs);
    this.lastTokenMs = nowMs;
    if (rank.growthBlockTokens > 0 && this.length % rank.growthBlockTokens === 0) rank.grown.push(this);
    this.length++;
    if (this.generated < this.outputTokens) return false;
    rank.finished.push(this);
    return true;
  }
}
