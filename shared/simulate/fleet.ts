import assert from 'node:assert';
import { type Random, seededRandom } from '../clock/index.ts';
import { type KvEvent, type TransferModel, transferMs } from '../engines/index.ts';
import { Ec2Scaling, type Ec2ScalingOptions } from './ec2/ec2-scaling.ts';
import { EventQueue } from './event-queue.ts';
import { FleetPool } from './fleet-pool.ts';
import { GapHistogram } from './percentiles.ts';
import type { PoolOptions, PoolView, RouterBench } from './routers.ts';
import type { FleetScaling } from './scaling/fleet-scaling.ts';
import { Scaling, type ScalingOptions } from './scaling/scaling.ts';
import { type SimulatedRank, SimulatedRequest } from './simulated-rank.ts';
import { type Workload, WorkloadNames } from './workload.ts';

/** Kinds of events, in their order within one instant. */
const PASS_END = 0;
const KV_EVENTS = 1;
const TRANSFER_END = 2;
const TIMER = 3;
const ARRIVAL = 4;

/** Timers may run on for this long while nothing else happens and requests wait. */
const STALLED_MS = 3_600_000;
/** Requests that a frontend holds at most. */
const HELD_MAX = 256;
/** Delivered batches that are kept before the list is cut. */
const LAGGING_SLACK = 1024;

export interface FleetOptions {
  /** One pool of aggregated workers; or the prefill workers, then the decode workers. */
  readonly pools: readonly PoolOptions[];
  /** The link between two pools. */
  readonly transfer: TransferModel | undefined;
  /** Longest prompt with its answer; longer requests are refused. Undefined = what a rank can hold. */
  readonly contextTokensMax: number | undefined;
  /** Most requests at once, each replaced when it ends; undefined = the workload's own arrival times. */
  readonly concurrency: number | undefined;
  /** Milliseconds from the end of a pass until the routers know what it cached. */
  readonly kvEventLagMs: number;
  /** Workers come and go. @default those that there are stay */
  readonly scaling?: ScalingOptions | Ec2ScalingOptions | undefined;
  /** Chance of failing starts and lost workers. */
  readonly random?: Random | undefined;
}

/** Receives each request that has ended. */
export type RequestEnd = (request: SimulatedRequest, nowMs: number) => void;

/**
 * A fleet in virtual time: requests arrive, routers send them to ranks, ranks work in passes. One loop over one queue
 * of events; no timer and no object per token, and no promise except those of a planner that acts.
 *
 *     ARRIVAL ──> routers.submit ──> dispatch ──> rank.take ──> rank.startPass
 *                     ^    ^                                        │
 *          KV_EVENTS ─┘    └── firstToken, finished ── PASS_END <───┘
 *
 * Where prompts are computed apart, what ends in the first pool goes on to the routers of the second; its blocks stay
 * where they are until they have crossed to the rank that those chose:
 *
 *     PASS_END ──> handOver ──> routers.submit ──> dispatch ──> TRANSFER_END ──> prefill.letGo, decode.take
 *
 * Within an instant, ends come before arrivals, and passes start when the instant is over: requests that arrive
 * together share a batch.
 */
export class Fleet {
  readonly pools: readonly FleetPool[];
  /** Ranks of all pools, one pool after the other. */
  readonly ranks: SimulatedRank[] = [];
  readonly gaps = new GapHistogram();
  readonly scaling: FleetScaling | undefined;
  refused = 0;
  readonly #options: FleetOptions;
  readonly #workload: Workload;
  readonly #events = new EventQueue();
  /** Numbers of the ranks that may start a pass once the instant is over; the first `#wokenCount` entries. */
  readonly #woken: number[] = [];
  #wokenCount = 0;
  readonly #timers = new Map<number, () => void | Promise<void>>();
  /** Work that must end before time goes on. */
  #work: Promise<void> | undefined;
  #timerCount = 0;
  #lastWorkMs = 0;
  /** Batches on their way to the routers, oldest first: the lag is the same for all. */
  readonly #lagging: { readonly rank: number; readonly events: readonly KvEvent[] }[] = [];
  #laggingHead = 0;
  /** Requests whose blocks are crossing, by their place in the workload, with the rank that waits for them. */
  readonly #crossing = new Map<number, { readonly request: SimulatedRequest; readonly rank: number }>();
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
    makeRouters: (pool: PoolView, options: PoolOptions) => RouterBench,
    onEnd: RequestEnd,
  ) {
    this.#workload = workload;
    this.#options = options;
    this.#onEnd = onEnd;
    const pools: FleetPool[] = [];
    for (const pool of options.pools) {
      pools.push(new FleetPool(this, pool, (view) => makeRouters(view, pool)));
    }
    this.pools = pools;
    this.scaling = options.scaling && openScaling(this, options.scaling, options.random ?? seededRandom(0));
    const contextMax = options.contextTokensMax ?? Number.POSITIVE_INFINITY;
    this.#lengthMax = Math.min(contextMax, ...pools.map(({ heldTokensMax }) => heldTokensMax));
    this.#promptMax = Math.min(this.#lengthMax, ...pools.map(({ promptTokensMax }) => promptTokensMax));
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Requests of the workload. */
  get size(): number {
    return this.#workload.size;
  }

  /** Runs `callback` after a delay. Time stands still until a promise that it returns has settled. */
  after(delayMs: number, callback: () => void | Promise<void>): void {
    const timer = this.#timerCount++;
    this.#timers.set(timer, callback);
    this.#events.push(this.#nowMs + delayMs, TIMER, timer);
  }

  /** Returns the request's wishes for the routers' queue. */
  hintsOf(request: number): { readonly priorityJump: number; readonly strictPriority: number } {
    const { priorityJump, strictPriority } = this.#workload;
    return { priorityJump: priorityJump[request]!, strictPriority: strictPriority[request]! };
  }

  /**
   * Returns the first turn of a request's conversation; undefined for a single turn, or if the workload has no turns.
   */
  firstTurnOf(request: number): number | undefined {
    const { nextTurn, previousTurn } = this.#workload;
    if (nextTurn[request]! < 0 && previousTurn[request]! < 0) return undefined;
    let first = request;
    while (previousTurn[first]! >= 0) first = previousTurn[first]!;
    return first;
  }

  /** Returns the number of the worker that the client named; undefined if it named none. */
  workerNamedBy(request: number): number | undefined {
    const worker = this.#workload.worker[request]!;
    return worker < 0 ? undefined : worker;
  }

  /** Turns a request away: no rank can hold it, or its router does not take it. */
  refuse(request: SimulatedRequest): void {
    this.refused++;
    if (request.prefill !== undefined) this.#letGo(request.prefill);
    this.#end(request);
  }

  /** Continues a request whose worker was lost: elsewhere, or through both pools again. */
  moveOn(request: SimulatedRequest): void {
    const [pool, second] = this.pools as readonly [FleetPool, FleetPool | undefined];
    if (second === undefined) {
      pool.submit(request.resumed());
      return;
    }
    const { index, names, router, promptLength, arrivedMs: nowMs } = request.prefill ?? request;
    const again = new SimulatedRequest(index, promptLength, 1, names, { nowMs, router });
    again.keepsBlocks = true;
    pool.submit(again);
  }

  /** Most requests that wait while no worker serves. */
  get heldMax(): number {
    return this.#options.scaling?.heldMax ?? HELD_MAX;
  }

  /** Sends a request to the rank that a router chose. */
  dispatch(request: SimulatedRequest, rank: SimulatedRank | undefined): void {
    assert(rank !== undefined, 'routers choose among the ranks of their pool');
    request.rank = rank;
    request.dispatchedMs = this.#nowMs;
    this.scaling?.began(request.index);
    if (request.prefill === undefined) this.#take(request, rank.at);
    else this.#fetch(request, rank.at);
  }

  /** Runs until every request has ended. */
  run(): void {
    for (const _ of this.#run()) assert.fail('this fleet waits for its planner: see runPlanned');
  }

  /** Runs until every request has ended, also if a planner acts. */
  async runPlanned(): Promise<void> {
    for (const work of this.#run()) await work;
  }

  /** Yields the work that must end before time goes on. */
  *#run(): Generator<Promise<void>> {
    this.#openGates();
    while (this.#ended < this.#workload.size) {
      if (this.#isStalled()) {
        this.#giveUp();
        continue;
      }
      this.#nowMs = this.#events.nextMs;
      while (this.#events.nextMs === this.#nowMs) {
        this.#happen(this.#events.nextKind, this.#events.pop());
        if (this.#work === undefined) continue;
        yield this.#work;
        this.#work = undefined;
      }
      this.#startPasses();
    }
    this.scaling?.settle();
  }

  /** Refuses the requests for which no worker came within an hour. */
  #giveUp(): void {
    const held = this.pools.flatMap((pool) => pool.held.splice(0));
    assert(held.length > 0, 'requests wait and nothing will ever happen: a router forgot them');
    for (const request of held) this.refuse(request);
    this.#lastWorkMs = this.#nowMs;
  }

  #isStalled(): boolean {
    if (this.#events.size > this.#timers.size) {
      this.#lastWorkMs = this.#nowMs;
      return false;
    }
    return this.#events.size === 0 || this.#nowMs - this.#lastWorkMs > STALLED_MS;
  }

  #happen(kind: number, payload: number): void {
    if (kind === PASS_END) this.#endPass(payload);
    else if (kind === KV_EVENTS) this.#deliver();
    else if (kind === TRANSFER_END) this.#arriveBlocks(payload);
    else if (kind === TIMER) this.#fire(payload);
    else this.#arrive(payload);
  }

  #fire(timer: number): void {
    const callback = this.#timers.get(timer);
    this.#timers.delete(timer);
    this.#work = callback?.() ?? undefined;
  }

  /** Admits the first request, or as many as may run at once. */
  #openGates(): void {
    for (let open = this.#options.concurrency ?? 1; open > 0; open--) this.#admitNext();
  }

  /**
   * Announces the next request of the workload that waits for no other turn: at its own time, or now in a closed loop.
   */
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
    const [pool, second] = this.pools as readonly [FleetPool, FleetPool | undefined];
    const names = new WorkloadNames(this.#workload, index, pool.options.engine.blockSizeTokens);
    const at = { nowMs: this.#nowMs, router: this.#arrived++ % pool.routers.count };
    const isApart = second !== undefined;
    const request = new SimulatedRequest(index, inputTokens, isApart ? 1 : outputTokens, names, at);
    request.keepsBlocks = isApart;
    this.scaling?.arrived();
    if (inputTokens > this.#promptMax || inputTokens + outputTokens > this.#lengthMax) {
      this.refuse(request);
      return;
    }
    pool.submit(request);
  }

  #endPass(at: number): void {
    const rank = this.ranks[at]!;
    const { routers } = this.#poolOf(rank);
    const events = rank.finishPass();
    if (events.length > 0) this.#publish(at, events);
    for (const request of rank.firstTokens) routers.firstToken?.(request);
    for (const request of rank.grown) routers.grown?.(request);
    for (const request of rank.finished) {
      routers.finished?.(request);
      if (rank.role === 'prefill') this.#handOver(request);
      else this.#end(request);
    }
    this.#wake(at);
  }

  /** Where a rank works; there are two pools at most. */
  #poolOf({ role }: SimulatedRank): FleetPool {
    const [first, second] = this.pools as readonly [FleetPool, FleetPool | undefined];
    return second !== undefined && role === 'decode' ? second : first;
  }

  /** Looks for a decode worker, now that the prompt is computed. */
  #handOver(prefill: SimulatedRequest): void {
    const { index, promptLength, names, router } = prefill;
    const outputTokens = this.#workload.outputTokens[index]!;
    const at = { nowMs: this.#nowMs, router };
    this.pools[1]!.submit(new SimulatedRequest(index, promptLength, outputTokens, names, at, prefill));
  }

  #fetch(request: SimulatedRequest, at: number): void {
    const { transfer } = this.#options;
    if (transfer !== undefined) {
      const known = transfer.movesMissingOnly ? this.ranks[at]!.cachedTokens(request) : 0;
      request.transferMs = transferMs(request.promptLength - known, transfer);
    }
    this.#crossing.set(request.index, { request, rank: at });
    this.#events.push(this.#nowMs + request.transferMs, TRANSFER_END, request.index);
  }

  #arriveBlocks(index: number): void {
    const { request, rank } = this.#crossing.get(index)!; // set by `fetch`, which is the only one to request this event
    this.#crossing.delete(index);
    this.#letGo(request.prefill!);
    this.#take(request, rank);
  }

  #letGo(prefill: SimulatedRequest): void {
    const rank = prefill.rank!; // it was computed there
    rank.letGo(prefill);
    this.#wake(rank.at); // there is room again
  }

  #take(request: SimulatedRequest, at: number): void {
    this.ranks[at]!.take(request);
    this.#wake(at);
  }

  #wake(at: number): void {
    this.#woken[this.#wokenCount++] = at;
  }

  #end(request: SimulatedRequest): void {
    this.#ended++;
    if (Number.isNaN(request.firstTokenMs)) this.scaling?.refused();
    else this.scaling?.answered(request, this.#workload.outputTokens[request.index]!);
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
      this.#tell(rank, events);
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
    this.#tell(rank, events);
  }

  #tell(at: number, events: readonly KvEvent[]): void {
    const rank = this.ranks[at]!;
    this.#poolOf(rank).routers.kvEvents?.(rank.inPool, events);
  }

  #startPasses(): void {
    for (let woken = 0; woken < this.#wokenCount; woken++) {
      const at = this.#woken[woken]!;
      const rank = this.ranks[at]!;
      if (rank.inPass || rank.isIdle || !rank.startPass(this.#nowMs)) continue;
      this.#events.push(rank.passEndMs, PASS_END, at);
    }
    this.#wokenCount = 0; // cutting the list costs as much as the rest of a small pass
  }
}

function openScaling(fleet: Fleet, options: ScalingOptions | Ec2ScalingOptions, random: Random): FleetScaling {
  return 'policy' in options ? new Scaling(fleet, options, random) : new Ec2Scaling(fleet, options, random);
}
