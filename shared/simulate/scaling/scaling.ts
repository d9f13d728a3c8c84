import type { Random } from '../../clock/index.ts';
import { type Pool, SPOT_NOTICE_MS, type Targets } from '../../planner/index.ts';
import type { FleetPool, SimulatedWorker } from '../fleet-pool.ts';
import type { SimulatedRequest } from '../simulated-rank.ts';
import type { FleetScaling, ScaledFleet, ScalingPoint, ScalingTargets } from './fleet-scaling.ts';

/** Options of how workers come and go. Times in virtual milliseconds. */
export interface ScalingOptions extends ScalingTargets {
  /** Decides at every tick. */
  readonly policy: ScalingPolicy;
  /** From the decision to a worker that serves. */
  readonly startMs: number;
  /** Share of the starts that come to nothing, known when they should have served. @default 0 */
  readonly startFailures?: number | undefined;
  /** Spare workers that start sooner, and how soon. They are paid for while they wait. @default none */
  readonly warmWorkers?: number | undefined;
  readonly warmStartMs?: number | undefined;
  /** Notices to leave within two minutes, for each worker and hour. @default 0 */
  readonly interruptionsPerHour?: number | undefined;
  /** US dollars an hour. @default 0 */
  readonly gpuPrice?: number | undefined;
}

/** Input of a policy about one pool. */
export interface ScaledPool {
  readonly ready: number;
  readonly starting: number;
  readonly draining: number;
  /** Requests that wait for a worker, in routers' queues too. */
  readonly held: number;
  readonly pool: FleetPool;
}

export interface ScalingView {
  readonly nowMs: number;
  readonly pools: Readonly<Partial<Record<Pool, ScaledPool>>>;
  /** Requests that arrived since the last tick. */
  readonly started: number;
  /** Requests that were answered since then: the length of an answer is known when it has ended. */
  readonly ended: number;
  /** Means over those, in tokens. */
  readonly isl: number | undefined;
  readonly osl: number | undefined;
  readonly running: number;
}

/** Decides how many workers each pool gets. */
export interface ScalingPolicy {
  readonly tickMs: number;
  decide(view: ScalingView): Targets | undefined;
}

const DRAIN_POLL_MS = 1000;
const MS_PER_HOUR = 3_600_000;

/**
 * Starts, drains and loses workers of a fleet as its policy wants. A start takes its time and is paid from the first
 * moment; it can be called off. A worker that drains takes nothing new and is gone when its last request has ended.
 */
export class Scaling implements FleetScaling {
  readonly points: ScalingPoint[] = [];
  ups = 0;
  downs = 0;
  /** Workers that had notice to leave. */
  interruptions = 0;
  /** Starts that came to nothing. */
  failures = 0;
  /** Requests that had not ended when their worker was taken away. */
  moved = 0;
  /** Paid time of spares that waited, in worker milliseconds. */
  warmMs = 0;
  readonly #fleet: ScaledFleet;
  readonly #options: ScalingOptions;
  readonly #random: Random;
  #warm: number;
  #warmSinceMs: number;
  #started = 0;
  #ended = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #underWay = 0;

  constructor(fleet: ScaledFleet, options: ScalingOptions, random: Random) {
    this.#fleet = fleet;
    this.#options = options;
    this.#random = random;
    this.#warm = options.warmWorkers ?? 0;
    this.#warmSinceMs = fleet.nowMs;
    for (const pool of fleet.pools) for (const worker of pool.workers) this.#expectInterruption(pool, worker);
    fleet.after(options.policy.tickMs, () => this.#tick());
  }

  arrived(): void {
    this.#started++;
    this.#underWay++;
  }

  refused(): void {
    this.#underWay--;
  }

  /** Does nothing: arrivals count. */
  began(): void {}

  answered({ promptLength }: SimulatedRequest, outputTokens: number): void {
    this.#underWay--;
    this.#ended++;
    this.#inputTokens += promptLength;
    this.#outputTokens += outputTokens;
  }

  /** Adds the paid time of the spares until now. */
  settle(): void {
    const { nowMs } = this.#fleet;
    this.warmMs += this.#warm * (nowMs - this.#warmSinceMs);
    this.#warmSinceMs = nowMs;
  }

  #tick(): void {
    const { policy } = this.#options;
    const pools = Object.fromEntries(
      this.#fleet.pools.map((pool) => [nameOf(pool), viewOf(pool)]),
    ) as ScalingView['pools'];
    const targets = policy.decide({
      nowMs: this.#fleet.nowMs,
      pools,
      started: this.#started,
      ended: this.#ended,
      isl: this.#ended > 0 ? this.#inputTokens / this.#ended : undefined,
      osl: this.#ended > 0 ? this.#outputTokens / this.#ended : undefined,
      running: this.#underWay,
    });
    this.#note();
    this.#started = 0;
    this.#ended = 0;
    this.#inputTokens = 0;
    this.#outputTokens = 0;
    for (const pool of this.#fleet.pools) {
      const target = targets?.[nameOf(pool)];
      if (target !== undefined) this.#bring(pool, target);
    }
    this.#fleet.after(policy.tickMs, () => this.#tick());
  }

  #note(): void {
    const all = this.#fleet.pools.flatMap(({ workers }) => workers);
    const count = (state: SimulatedWorker['state']): number => all.filter((worker) => worker.state === state).length;
    this.points.push({
      atMs: this.#fleet.nowMs,
      started: this.#started,
      ready: count('ready'),
      starting: count('starting'),
      draining: count('draining'),
      held: this.#fleet.pools.reduce((total, pool) => total + viewOf(pool).held, 0),
    });
  }

  #bring(pool: FleetPool, target: number): void {
    const { ready, starting } = viewOf(pool);
    const have = ready + starting;
    if (target > have) this.ups++;
    if (target < have) this.downs++;
    for (let missing = target - have; missing > 0; missing--) this.#start(pool);
    const surplus = leastWorth(pool).slice(0, Math.max(0, have - target));
    for (const worker of surplus) this.#stop(pool, worker);
  }

  #start(pool: FleetPool): void {
    const { startMs, startFailures = 0, warmStartMs = startMs } = this.#options;
    this.settle();
    const isWarm = this.#warm > 0;
    if (isWarm) this.#warm--;
    const worker = pool.addWorker('starting');
    const fails = startFailures > 0 && this.#random.next() < startFailures;
    const settle = (): void => {
      if (worker.state !== 'starting') return; // called off
      if (fails) this.failures++;
      pool.become(worker, fails ? 'gone' : 'ready');
      if (!fails) this.#expectInterruption(pool, worker);
    };
    // After everything else of its instant: a tick of that moment does not see it yet.
    this.#fleet.after(isWarm ? warmStartMs : startMs, () => this.#fleet.after(0, settle));
  }

  #stop(pool: FleetPool, worker: SimulatedWorker): void {
    this.settle();
    if (this.#warm < (this.#options.warmWorkers ?? 0)) this.#warm++; // it goes back to the spares
    if (worker.state === 'starting') {
      pool.become(worker, 'gone');
      return;
    }
    pool.become(worker, 'draining');
    this.#leaveWhenIdle(pool, worker);
  }

  #leaveWhenIdle(pool: FleetPool, worker: SimulatedWorker): void {
    if (worker.state !== 'draining') return; // it was lost
    if (worker.ranks.every(({ isIdle, inPass }) => isIdle && !inPass)) pool.become(worker, 'gone');
    else this.#fleet.after(DRAIN_POLL_MS, () => this.#leaveWhenIdle(pool, worker));
  }

  /**
   * Plans an interruption. The worker takes no new requests from the notice on; two minutes later its unfinished
   * requests move to others.
   */
  #expectInterruption(pool: FleetPool, worker: SimulatedWorker): void {
    const { interruptionsPerHour = 0 } = this.#options;
    if (interruptionsPerHour === 0) return;
    const inMs = (-Math.log(1 - this.#random.next()) * MS_PER_HOUR) / interruptionsPerHour;
    this.#fleet.after(inMs, () => {
      if (worker.state !== 'ready') return;
      this.interruptions++;
      pool.become(worker, 'draining');
      this.#leaveWhenIdle(pool, worker);
      this.#fleet.after(SPOT_NOTICE_MS, () => {
        if (worker.state === 'draining') this.moved += pool.lose(worker);
      });
    });
  }
}

function nameOf({ options }: FleetPool): Pool {
  return options.role === 'prefill' ? 'prefill' : 'decode';
}

function viewOf(pool: FleetPool): ScaledPool {
  const count = (state: SimulatedWorker['state']): number => pool.workers.filter((each) => each.state === state).length;
  return {
    ready: count('ready'),
    starting: count('starting'),
    draining: count('draining'),
    held: pool.held.length + pool.routers.pending,
    pool,
  };
}

/**
 * Returns workers in the order in which they may go: starting ones first, the newest before the others, then the least
 * loaded.
 */
function leastWorth({ workers }: FleetPool): readonly SimulatedWorker[] {
  const starting = workers.filter(({ state }) => state === 'starting').toReversed();
  const loadOf = ({ ranks }: SimulatedWorker): number => ranks.reduce((total, { load }) => total + load, 0);
  const ready = workers.filter(({ state }) => state === 'ready').toSorted((one, other) => loadOf(one) - loadOf(other));
  return [...starting, ...ready];
}
