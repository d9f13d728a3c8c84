import assert from 'node:assert';
import type { KvEvent } from '../engines/index.ts';
import type { SchedulerOptions } from '../engines/mocker/index.ts';
import { WorkloadNames } from './block-names.ts';
import { EventQueue } from './event-queue.ts';
import { GapHistogram } from './gap-histogram.ts';
import type { RouterBench } from './routers.ts';
import { SimulatedRank } from './simulated-rank.ts';
import { SimulatedRequest } from './simulated-request.ts';
import type { Workload } from './workload.ts';

/** Kinds of events, in the order in which they are taken within one instant. */
const PASS_END = 0;
const KV_EVENTS = 1;
const TIMER = 2;
const ARRIVAL = 3;

/** Timers may run on for this long while nothing else happens and requests wait. */
const STALLED_MS = 3_600_000;
/** Delivered batches that are kept before the list is cut. */
const LAGGING_SLACK = 1024;

export interface FleetOptions {
  readonly workers: number;
  /** Ranks of a worker. */
  readonly dataParallelSize: number;
  readonly engine: SchedulerOptions;
  /** Longest prompt with its answer; longer requests are refused. Undefined = what a rank can hold. */
  readonly contextTokensMax: number | undefined;
  /** Requests under way at most, each replaced when it ends; undefined = the workload's own arrival times. */
  readonly concurrency: number | undefined;
  /** From the end of a pass until the routers know what it cached. */
  readonly kvEventLagMs: number;
}

/** What the fleet tells about each request that has ended. */
export type RequestEnd = (request: SimulatedRequest, nowMs: number) => void;

/**
 * A fleet in virtual time: requests arrive, routers send them to ranks, ranks work in passes. One loop over one queue of
 * events; no promise, no timer and no object per token.
 *
 *     ARRIVAL ──> routers.submit ──> dispatch ──> rank.take ──> rank.startPass
 *                     ^    ^                                        │
 *          KV_EVENTS ─┘    └── firstToken, finished ── PASS_END <───┘
 *
 * Within an instant everything that ends is told before anything that arrives, and passes start when the instant is over:
 * what arrives together is batched together.
 */
export class Fleet {
  readonly ranks: readonly SimulatedRank[];
  readonly gaps = new GapHistogram();
  refused = 0;
  readonly #options: FleetOptions;
  readonly #workload: Workload;
  readonly #routers: RouterBench;
  readonly #events = new EventQueue();
  /** Ranks that may start a pass once the instant is over; the first `#wokenCount` entries. */
  readonly #woken: SimulatedRank[] = [];
  #wokenCount = 0;
  readonly #timers = new Map<number, () => void>();
  #timerCount = 0;
  #lastWorkMs = 0;
  /** Batches on their way to the routers, oldest first: the lag is the same for all. */
  readonly #lagging: { readonly rank: number; readonly events: readonly KvEvent[] }[] = [];
  #laggingHead = 0;
  readonly #onEnd: RequestEnd;
  readonly #lengthMax: number;
  readonly #promptMax: number;
  #nowMs = 0;
  #arrived = 0;
  #ended = 0;
  #nextIndex = 0;

  constructor(
    workload: Workload,
    options: FleetOptions,
    makeRouters: (fleet: Fleet) => RouterBench,
    onEnd: RequestEnd,
  ) {
    this.#workload = workload;
    this.#options = options;
    this.#onEnd = onEnd;
    this.#routers = makeRouters(this);
    const { engine, workers, dataParallelSize } = options;
    this.ranks = Array.from(
      { length: workers * dataParallelSize },
      (_, at) =>
        new SimulatedRank(Math.floor(at / dataParallelSize), at % dataParallelSize, engine, {
          gaps: this.gaps,
          hasJournal: this.#routers.wantsKvEvents && engine.enablePrefixCaching,
          notesGrowth: this.#routers.wantsGrowth,
        }),
    );
    const heldMax = engine.numGpuBlocks * engine.blockSizeTokens;
    this.#lengthMax = Math.min(heldMax, options.contextTokensMax ?? heldMax);
    this.#promptMax = engine.enableChunkedPrefill ? this.#lengthMax : engine.maxNumBatchedTokens;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, callback: () => void): void {
    const timer = this.#timerCount++;
    this.#timers.set(timer, callback);
    this.#events.push(this.#nowMs + delayMs, TIMER, timer);
  }

  /** What the workload asks of the routers' queue. */
  hintsOf(request: number): { readonly priorityJump: number; readonly strictPriority: number } {
    const { priorityJump, strictPriority } = this.#workload;
    return { priorityJump: priorityJump[request]!, strictPriority: strictPriority[request]! };
  }

  /** Turns a request away: no rank can hold it, or its router does not take it. */
  refuse(request: SimulatedRequest): void {
    this.refused++;
    this.#end(request);
  }

  /** Sends a request to the rank a router chose. */
  dispatch(request: SimulatedRequest, rank: number): void {
    const chosen = this.ranks[rank];
    assert(chosen !== undefined, 'routers choose among the ranks of the fleet');
    chosen.take(request, this.#nowMs);
    this.#woken[this.#wokenCount++] = chosen;
  }

  /** Runs until every request has ended. */
  run(): void {
    this.#openGates();
    while (this.#ended < this.#workload.size) {
      assert(!this.#isStalled(), 'requests wait and nothing will ever happen: a router forgot them');
      this.#nowMs = this.#events.nextMs;
      while (this.#events.nextMs === this.#nowMs) this.#take(this.#events.nextKind, this.#events.pop());
      this.#startPasses();
    }
  }

  #isStalled(): boolean {
    if (this.#events.size > this.#timers.size) {
      this.#lastWorkMs = this.#nowMs;
      return false;
    }
    return this.#events.size === 0 || this.#nowMs - this.#lastWorkMs > STALLED_MS;
  }

  #take(kind: number, payload: number): void {
    if (kind === PASS_END) this.#endPass(payload);
    else if (kind === KV_EVENTS) this.#deliver();
    else if (kind === TIMER) this.#fire(payload);
    else this.#arrive(payload);
  }

  #fire(timer: number): void {
    const callback = this.#timers.get(timer);
    this.#timers.delete(timer);
    callback?.();
  }

  /** Lets in the first request, or as many as may be under way at once. */
  #openGates(): void {
    for (let open = this.#options.concurrency ?? 1; open > 0; open--) this.#admitNext();
  }

  /** Announces the next request of the workload that waits for no other turn: at its own time, or now in a closed loop. */
  #admitNext(): void {
    while (this.#nextIndex < this.#workload.size) {
      const index = this.#nextIndex++;
      if (this.#workload.previousTurn[index]! >= 0) continue;
      const atMs = this.#options.concurrency === undefined ? this.#workload.arrivalMs[index]! : this.#nowMs;
      this.#events.push(atMs, ARRIVAL, index);
      return;
    }
  }

  #arrive(index: number): void {
    const isFirstTurn = this.#workload.previousTurn[index]! < 0;
    if (isFirstTurn && this.#options.concurrency === undefined) this.#admitNext();
    const inputTokens = this.#workload.inputTokens[index]!;
    const outputTokens = this.#workload.outputTokens[index]!;
    const names = new WorkloadNames(this.#workload, index, this.#options.engine.blockSizeTokens);
    const at = { nowMs: this.#nowMs, router: this.#arrived++ % this.#routers.count };
    const request = new SimulatedRequest(index, inputTokens, outputTokens, names, at);
    if (inputTokens > this.#promptMax || inputTokens + outputTokens > this.#lengthMax) {
      this.refuse(request);
      return;
    }
    this.#routers.submit(request);
  }

  #endPass(at: number): void {
    const rank = this.ranks[at]!;
    const events = rank.finishPass();
    if (events.length > 0) this.#publish(at, events);
    for (const request of rank.firstTokens) this.#routers.firstToken(request);
    for (const request of rank.grown) this.#routers.grown(request);
    for (const request of rank.finished) {
      this.#routers.finished(request);
      this.#end(request);
    }
    this.#woken[this.#wokenCount++] = rank;
  }

  #end(request: SimulatedRequest): void {
    this.#ended++;
    this.#onEnd(request, this.#nowMs);
    const next = this.#workload.nextTurn[request.index]!;
    if (next >= 0) {
      const dueMs = this.#nowMs + this.#workload.delayMs[next]!;
      const earliestMs = this.#options.concurrency === undefined ? this.#workload.arrivalMs[next]! : 0;
      this.#events.push(Math.max(dueMs, earliestMs), ARRIVAL, next);
    } else if (this.#options.concurrency !== undefined) {
      this.#admitNext();
    }
  }

  #publish(rank: number, events: readonly KvEvent[]): void {
    if (this.#options.kvEventLagMs === 0) {
      this.#routers.kvEvents(rank, events);
      return;
    }
    this.#lagging.push({ rank, events });
    this.#events.push(this.#nowMs + this.#options.kvEventLagMs, KV_EVENTS, 0);
  }

  #deliver(): void {
    const { rank, events } = this.#lagging[this.#laggingHead++]!;
    if (this.#laggingHead === LAGGING_SLACK) {
      this.#lagging.splice(0, LAGGING_SLACK);
      this.#laggingHead = 0;
    }
    this.#routers.kvEvents(rank, events);
  }

  #startPasses(): void {
    for (let at = 0; at < this.#wokenCount; at++) {
      const rank = this.#woken[at]!;
      if (rank.inPass || rank.isIdle) continue;
      rank.startPass(this.#nowMs);
      this.#events.push(rank.passEndMs, PASS_END, rank.worker * this.#options.dataParallelSize + rank.dpRank);
    }
    this.#wokenCount = 0; // cutting the list costs as much as the rest of a small pass
  }
}
