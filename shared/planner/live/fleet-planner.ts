import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { EventPlane } from '../../planes/index.ts';
import {
  groupOf,
  HELD_TOPIC,
  PLANNER_EVENT_VERSION,
  type PlannerEventOf,
  type PlannerSignal,
  ROLLUP_TOPIC,
  readPlannerEvent,
  type TrafficTotals,
} from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { TopicFollower } from '../../worker-events/index.ts';
import type { PlannerConfig } from '../config.ts';
import type { SentSignal } from '../decide/apply-signal.ts';
import { type BatchOutcome, handleSignals, PlannerConflict } from '../decide/handle-batch.ts';
import { missingPasses } from '../decide/needs-passes.ts';
import type { LawTick } from '../decide/tick-law.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { type Planner, type PlannerBounds, withBounds } from '../planner.ts';
import { RollupAggregator } from '../signals/rollup-aggregator.ts';
import type { DecisionRecord, PlannerStore } from '../store/types.ts';
import type { PerPool } from '../types.ts';
import { actOnNewest } from './act.ts';
import type { Connector } from './connector.ts';
import { countedOf } from './counted-workers.ts';
import { drainOrders } from './drain-orders.ts';
import { Hearing } from './hearing.ts';
import { viewOf } from './option-views.ts';
import type { PlannerMetrics } from './planner-metrics.ts';

export interface FleetPlannerOptions {
  readonly planner: Planner;
  readonly store: PlannerStore;
  readonly connector: Connector;
  readonly discovery: Discovery;
  readonly eventPlane: EventPlane;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly namespace: string;
  /** Discovery is of this process only: no other process can be heard. @default false */
  readonly isAlone?: boolean;
  /** Place where it listens, for the log. @default the namespace */
  readonly where?: Readonly<Record<string, string>>;
  /** Model to plan for, compared in lower case. @default that of the first worker or request that is heard */
  readonly model?: string | undefined;
  /** Namespace under which its decisions are stored. @default the fleet's */
  readonly group?: string;
  /** Passes that were measured before: knowledge of engines before they have reported any. */
  readonly profile?: PerPool<readonly (readonly ForwardPass[])[]> | undefined;
  readonly metrics?: PlannerMetrics | undefined;
  /** GPUs of all models of the store together. @default no bound */
  readonly gpusMax?: number | undefined;
  /**
   * Reads the traffic from elsewhere than the workers, as sums since some time. While that fails, the demand is
   * unknown. @default at the workers
   */
  readonly readTraffic?:
    | ((model: string | undefined, signal: AbortSignal) => Promise<TrafficTotals | undefined>)
    | undefined;
  /** Shows one line to people: decisions, and workers that come and go. */
  tell(line: string): void;
}

/** The law cannot work with the engines that are heard. Thrown once, and nothing is decided. */
export class PlannerRefusal extends Error {
  override readonly name = 'PlannerRefusal';
}

/** Signals between two ticks. Beyond that the oldest go, because newer ones include their counts. */
const PENDING_MAX = 10_000;
const CALL_MS_MAX = 10_000;

/**
 * Plans for one model of a namespace. It hears workers and edges on the event plane, and ticks at its interval, or at
 * once when a request waits. It keeps its state and decisions in a store, and a connector carries the decisions out.
 */
export class FleetPlanner {
  readonly #options: FleetPlannerOptions;
  readonly #followers: readonly TopicFollower[];
  readonly #ended = new AbortController();
  readonly #source: string;
  readonly #epoch: string;
  #planner: Planner;
  #model: string | undefined;
  #aggregator: RollupAggregator | undefined;
  #pending: SentSignal[] = [];
  #known: ReadonlySet<string> = new Set();
  #sequence = 0;
  #isWoken = false;
  #wake: () => void = () => {};
  #toldReady: number | undefined;
  #refusal: PlannerRefusal | undefined;
  #latest: DecisionRecord | undefined;
  #onTick: (tick: LawTick) => void = () => {};
  readonly #beganMs: number;
  readonly #hearing: Hearing;

  constructor(options: FleetPlannerOptions) {
    this.#options = options;
    this.#planner = options.planner;
    this.#model = options.model;
    this.#source = options.random.instanceId();
    this.#epoch = options.random.instanceId();
    this.#beganMs = options.clock.wallMs();
    const { namespace, discovery, eventPlane, clock, logger, metrics, isAlone = false, where = {} } = options;
    this.#hearing = new Hearing({ clock, logger, metrics, isAlone, where: { namespace, ...where } });
    const scope = { kind: 'namespace', namespace } as const;
    const common = { discovery, eventPlane, clock, logger, scope };
    const listener = { event: ({ payload }: { readonly payload: unknown }) => this.hear(payload) };
    this.#followers = [
      new TopicFollower({
        ...common,
        topic: ROLLUP_TOPIC,
        listener,
        onPublishers: (workers) => this.#dropLost(workers),
      }),
      new TopicFollower({ ...common, topic: HELD_TOPIC, listener }),
    ];
  }

  /** Model of this planner; undefined before it has heard of any. */
  get model(): string | undefined {
    return this.#model;
  }

  /** Name of its state and decisions. */
  get group(): string | undefined {
    const { namespace, group = namespace } = this.#options;
    return this.#model === undefined ? undefined : groupOf({ namespace: group, model: this.#model });
  }

  /** Current configuration. */
  get config(): PlannerConfig {
    return this.#planner.config;
  }

  /**
   * Uses other bounds from the next tick on. @throws Error for bounds that cannot hold; then nothing changes
   */
  setBounds(bounds: PlannerBounds): void {
    this.#planner = withBounds(this.#planner, bounds);
  }

  /** Calls `listener` after every tick, in place of an earlier listener. */
  onTick(listener: (tick: LawTick) => void): void {
    this.#onTick = listener;
  }

  /** Runs until `close`. Rejects with `PlannerRefusal` if the law cannot work with the engines that are heard. */
  async run(): Promise<void> {
    const { logger, clock, metrics } = this.#options;
    const { signal } = this.#ended;
    await Promise.all(this.#followers.map(({ opened }) => opened));
    let dueMs = clock.nowMs();
    while (!signal.aborted) {
      const begunMs = clock.nowMs();
      metrics?.begins(Math.max(0, begunMs - dueMs) / 1000, clock.wallMs());
      dueMs = begunMs + this.config.tickSeconds * 1000;
      try {
        await withDeadline({ clock, timeoutMs: CALL_MS_MAX, signal }, (within) => this.#tick(within));
      } catch (thrown) {
        if (thrown instanceof PlannerRefusal) throw thrown;
        if (signal.aborted) return;
        const level = thrown instanceof PlannerConflict ? 'info' : 'warn';
        logger[level]('a tick of the planner failed; trying again', { reason: reasonOf(thrown) });
        metrics?.failed(clock.nowMs() - begunMs >= CALL_MS_MAX);
      }
      if (!signal.aborted) await this.#pause(this.config.tickSeconds * 1000);
    }
  }

  async close(): Promise<void> {
    this.#ended.abort(new Error('the planner is closed'));
    this.#wake();
    await Promise.all(this.#followers.map((follower) => follower.close()));
  }

  /** Takes an event from any sender. */
  hear(payload: unknown): void {
    const { namespace, logger, metrics, clock } = this.#options;
    const read = readPlannerEvent(payload);
    if (read.kind === 'refused') {
      metrics?.refused();
      logger.warn('an event was refused', { problem: read.problem });
      return;
    }
    const { event } = read;
    if (event.namespace !== namespace || event.type === 'scale.decision') return;
    this.#model ??= event.model;
    if (event.model.toLowerCase() !== this.#model.toLowerCase()) {
      this.#hearing.heardOther(event.model);
      return;
    }
    this.#hearing.heard(this.#model);
    if (event.type === 'worker.rollup') this.#hearWorker(event);
    else this.#take(event);
    if (event.type === 'request.held') this.wake();
    metrics?.heard(event.type, clock.wallMs());
  }

  /** Makes the next tick come at once. */
  wake(): void {
    this.#isWoken = true;
    this.#wake();
  }

  #hearWorker(event: PlannerEventOf<'worker.rollup'>): void {
    const { clock, logger, namespace } = this.#options;
    const reason = missingPasses(this.#planner, event);
    if (reason !== undefined) {
      if (this.#toldReady === undefined) {
        this.#refusal = new PlannerRefusal(reason);
        this.wake();
      } else logger.warn(reason);
      return;
    }
    this.#aggregator ??= new RollupAggregator({
      namespace,
      model: event.model,
      source: this.#source,
      epoch: this.#epoch,
    });
    this.#aggregator.add(event, clock.nowMs());
    this.#options.metrics?.worker(event);
  }

  /** Forgets workers that discovery no longer names. */
  #dropLost(workers: ReadonlySet<string>): void {
    let isLess = false;
    for (const id of this.#known) {
      if (workers.has(id)) continue;
      this.#aggregator?.remove(id);
      this.#options.metrics?.gone(id);
      isLess = true;
    }
    this.#known = new Set(workers);
    this.#hearing.knows(workers.size);
    if (isLess) this.wake();
  }

  #take(signal: PlannerSignal): void {
    this.#pending.push({ signal, sentAtS: this.#options.clock.wallMs() / 1000 });
    if (this.#pending.length > PENDING_MAX) this.#pending.shift();
  }

  async #tick(signal: AbortSignal): Promise<void> {
    const { profile, store, connector, clock, metrics } = this.#options;
    if (this.#refusal !== undefined) throw this.#refusal;
    const observed = await connector.observe(signal);
    metrics?.observed(observed);
    const { ready = 0, starting = 0 } = observed.pools?.decode ?? {};
    this.#hearing.begins(this.#model, ready === 0 && starting > 0);
    const folded = await this.#countedElsewhere(this.#aggregator?.aggregate(clock.nowMs(), clock.wallMs()), signal);
    if (folded !== undefined) this.#take(folded);
    const { group } = this;
    if (group === undefined) return; // no worker or frontend was heard yet
    this.#take(this.#tickSignal());
    const signals = this.#pending;
    this.#pending = [];
    const startedMs = clock.nowMs();
    let outcome: BatchOutcome;
    try {
      const environment = {
        counted: countedOf(observed),
        fleet: viewOf(observed),
        startSeconds: observed.startSeconds,
      };
      outcome = await handleSignals(signals, { store, group, planner: this.#planner, profile, ...environment }, signal);
    } catch (thrown) {
      this.#pending.unshift(...signals); // the next tick takes them again: nothing counts twice
      throw thrown;
    }
    metrics?.ticked(outcome, (clock.nowMs() - startedMs) / 1000);
    if (outcome.tick !== undefined) {
      this.#tellReady(outcome.tick);
      this.#onTick(outcome.tick);
    }
    if (outcome.record !== undefined) this.#tellDecision(outcome.record);
    await this.#act(group, signal);
  }

  /**
   * Returns the message with the traffic that was counted elsewhere, if there is such a count; undefined while it
   * cannot be read.
   */
  async #countedElsewhere(
    folded: PlannerEventOf<'model.rollup'> | undefined,
    signal: AbortSignal,
  ): Promise<PlannerEventOf<'model.rollup'> | undefined> {
    const { readTraffic } = this.#options;
    if (folded === undefined || readTraffic === undefined) return folded;
    const totals = await readTraffic(this.#model, signal);
    if (totals === undefined) return undefined;
    const name = folded.pools.agg === undefined ? 'decode' : 'agg';
    const pool = folded.pools[name];
    return pool === undefined ? folded : { ...folded, pools: { ...folded.pools, [name]: { ...pool, totals } } };
  }

  async #act(group: string, signal: AbortSignal): Promise<void> {
    const { store, connector, clock, logger, metrics, gpusMax, discovery } = this.#options;
    const nowMs = (): number => clock.wallMs();
    const { engines } = this.#planner;
    const { tickSeconds, startSeconds, minInstanceSeconds } = this.config;
    const before = this.#latest;
    const times = { nowMs, tickSeconds, startSeconds, minInstanceSeconds };
    const common = { store, connector, group, holder: this.#source, engines, ...times };
    this.#latest = await actOnNewest({ ...common, gpusMax, orderDrain: drainOrders(discovery) }, signal);
    metrics?.wants(this.#model ?? '', this.#latest?.targets);
    if (this.#latest === undefined) return;
    const { decisionId: decision_id, status, decidedAtMs, problem, code, option } = this.#latest;
    const isSame = before?.decisionId === decision_id && before.status === status;
    // Decisions that an earlier process left do not count here.
    if (!isSame && (before !== undefined || decidedAtMs >= this.#beganMs)) metrics?.acted(this.#latest, nowMs());
    if (isSame && before.problem === problem) return;
    if (problem !== undefined) logger.warn('a decision is not carried out', { decision_id, problem, code, option });
  }

  #tickSignal(): PlannerSignal {
    const { namespace, clock } = this.#options;
    const at = clock.wallMs();
    const model = this.#model ?? '';
    const common = { v: PLANNER_EVENT_VERSION, namespace, model, source: this.#source, epoch: this.#epoch } as const;
    return { type: 'tick', ...common, seq: this.#sequence++, at };
  }

  #tellDecision({ isAdvisory, reason }: DecisionRecord): void {
    const pools = this.config.mode === 'agg' ? reason.replace('decode ', 'workers ') : reason;
    this.#options.tell(`${isAdvisory ? 'would change ' : ''}${pools}`);
  }

  #tellReady({ counts }: LawTick): void {
    const ready = (counts.decode?.ready ?? 0) + (counts.prefill?.ready ?? 0);
    if (this.#toldReady !== undefined && ready !== this.#toldReady) {
      this.#options.tell(ready === 1 ? '1 worker serves' : `${ready} workers serve`);
    }
    this.#toldReady = ready;
  }

  async #pause(ms: number): Promise<void> {
    if (!this.#isWoken) {
      await new Promise<void>((resolve) => {
        const timer = this.#options.clock.after(ms, resolve);
        this.#wake = () => {
          timer.cancel();
          resolve();
        };
      });
    }
    this.#wake = () => {};
    this.#isWoken = false;
  }
}
