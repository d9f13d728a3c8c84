import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { HostMetrics } from './host-metrics.ts';
import type { Notices } from './instance-facts.ts';
import { completed, refused } from './law/hooks.ts';
import { firstState, reported, resumed, step } from './law/step.ts';
import type { Facts, Hook, HostAction, InstanceState, Phase, Rules } from './law/types.ts';
import type { LifecycleActions } from './lifecycle/types.ts';
import type { PlannerReports } from './planner-reports.ts';
import type { Preparation } from './preparation.ts';
import type { Replica } from './replica.ts';
import type { ReplicaSpec } from './runners/types.ts';
import type { StateFile } from './state-file.ts';
import type { HostHealth } from './status-page.ts';

export interface AgentDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly rules: Rules;
  readonly hooks: Readonly<Record<Hook, string | undefined>>;
  /** Interval between two looks at the metadata, in milliseconds. */
  readonly pollMs: number;
  readonly stateFile: StateFile;
  readonly preparation: Preparation;
  readonly replicas: readonly Replica[];
  readonly specs: readonly ReplicaSpec[];
  readonly lifecycle: LifecycleActions | undefined;
  readonly reports: PlannerReports | undefined;
  readonly metrics: HostMetrics;
  readNotices(signal: AbortSignal): Promise<Notices>;
  gpuFault(): string | undefined;
  progressAtMs(): number;
  /** Returns the phase of the start that is under way. */
  startPhase(): string | undefined;
  /** Called when a worker is about to start. */
  onStart(): void;
  /** Called when the phase has changed. @param isFirst the first start since the boot */
  onPhase(phase: Phase, before: Phase | undefined, isFirst: boolean): void;
}

/** Longest time between two looks at the workers. */
const LOOK_MS_MAX = 1000;
/** Pause before a call that failed is made again. */
const RETRY_MS = 3000;

/** Runs the law of an instance: gathers facts, asks what to do, and does it, until the law says that it is over. */
export class HostAgent {
  readonly #deps: AgentDeps;
  readonly #ended = new AbortController();
  /** Actions under way, and those that failed a moment ago, by their text. */
  readonly #busy = new Set<string>();
  #state: InstanceState;
  #notices: Notices = {};
  #noticesAtMs = Number.NEGATIVE_INFINITY;
  #isDeaf = false;
  #isStopping = false;
  #exitCode: number | undefined;
  #wake: () => void = () => {};

  constructor(deps: AgentDeps) {
    this.#deps = deps;
    this.#state = firstState(undefined, deps.clock.wallMs());
  }

  /** Runs until the law ends it. @param stopped resolves when the agent itself must end */
  async run(stopped: Promise<string>): Promise<number> {
    const { pollMs, replicas } = this.#deps;
    stopped.then((reason) => {
      this.#deps.logger.info('stopping', { reason });
      this.#isStopping = true;
      this.wake();
    }, this.#logFailure('the signal'));
    await this.#begin();
    while (this.#exitCode === undefined) {
      await this.#look();
      await this.#step();
      if (this.#exitCode === undefined) await this.#pause(Math.min(LOOK_MS_MAX, pollMs));
    }
    this.#ended.abort(new Error('the agent has ended'));
    for (const replica of replicas) replica.release();
    await this.#keep();
    return this.#exitCode;
  }

  /** Looks again at once: something has changed. */
  wake(): void {
    this.#wake();
  }

  health(): HostHealth {
    const { phase } = this.#state;
    const fault = this.#deps.gpuFault();
    const startPhase = this.#deps.startPhase();
    return {
      status: phase.kind,
      ...('reason' in phase ? { reason: phase.reason } : {}),
      ...('untilMs' in phase ? { until_ms: phase.untilMs } : {}),
      ...(startPhase === undefined ? {} : { start_phase: startPhase }),
      ...(fault === undefined ? {} : { gpu_fault: fault }),
      workers: this.#replicaFacts().map(({ state, told, failures }) => ({ state, told, failures })),
    };
  }

  /** Goes on where an earlier agent of this boot ended, with the workers that it has left. */
  async #begin(): Promise<void> {
    const { clock, stateFile, replicas, rules, onPhase, logger } = this.#deps;
    await this.#readNotices();
    const kept = await stateFile.read();
    const { target } = this.#notices;
    if (kept === undefined) this.#state = firstState(target, clock.wallMs());
    else {
      this.#state = resumed(kept.state, target, clock.wallMs(), rules);
      logger.info('going on for an earlier agent', { phase: this.#state.phase.kind });
    }
    await Promise.all(replicas.map((replica, at) => replica.adopt(kept?.told[at] ?? 'nothing', this.#ended.signal)));
    onPhase(this.#state.phase, undefined, kept === undefined);
  }

  async #look(): Promise<void> {
    const { clock, pollMs, replicas, metrics } = this.#deps;
    const { signal } = this.#ended;
    const isDue = clock.nowMs() - this.#noticesAtMs >= pollMs;
    await Promise.all([...replicas.map((replica) => replica.look(signal)), isDue ? this.#readNotices() : undefined]);
    const facts = this.#replicaFacts();
    for (const state of ['absent', 'starting', 'ready'] as const) {
      metrics.workers(state, facts.filter((replica) => replica.state === state).length);
    }
  }

  /** Reads the notices. If that fails, the ones from before stay: an outage of the metadata is no reason to end. */
  async #readNotices(): Promise<void> {
    const { clock, readNotices, logger } = this.#deps;
    this.#noticesAtMs = clock.nowMs();
    try {
      this.#notices = await readNotices(this.#ended.signal);
      if (this.#isDeaf) logger.info('the instance metadata answers again');
      this.#isDeaf = false;
    } catch (thrown) {
      if (!this.#isDeaf) logger.error('no notices from the instance metadata', { reason: reasonOf(thrown) });
      this.#isDeaf = true;
    }
  }

  async #step(): Promise<void> {
    const { rules, onPhase, logger } = this.#deps;
    const before = this.#state.phase;
    const { state, actions } = step(this.#state, this.#facts(), rules);
    this.#state = state;
    if (state.phase.kind !== before.kind) {
      logger.info('phase', {
        phase: state.phase.kind,
        ...('reason' in state.phase ? { reason: state.phase.reason } : {}),
      });
      onPhase(state.phase, before, false);
    }
    await this.#keep();
    for (const action of actions) this.#dispatch(action);
  }

  #facts(): Facts {
    const { clock, preparation, progressAtMs, gpuFault } = this.#deps;
    const { target, spot, rebalanceAtMs } = this.#notices;
    return {
      nowMs: clock.wallMs(),
      target,
      spotAtMs: spot?.atMs,
      rebalanceAtMs,
      replicas: this.#replicaFacts(),
      preparation: preparation.status,
      progressAtMs: progressAtMs(),
      gpuFault: gpuFault(),
      isStopping: this.#isStopping,
    };
  }

  #replicaFacts() {
    const isServing = this.#state.phase.kind === 'serving';
    return this.#deps.replicas.map((replica) => replica.facts(isServing));
  }

  /** Carries an action out, unless the same one is under way or has failed a moment ago. */
  #dispatch(action: HostAction): void {
    const key = JSON.stringify(action);
    if (this.#busy.has(key)) return;
    this.#busy.add(key);
    this.#carryOut(action).then(
      () => {
        this.#busy.delete(key);
        this.wake();
      },
      (thrown: unknown) => {
        this.#deps.logger.error('an action failed', { action: action.kind, reason: reasonOf(thrown) });
        this.#deps.clock.after(RETRY_MS, () => this.#busy.delete(key));
      },
    );
  }

  async #carryOut(action: HostAction): Promise<void> {
    const { preparation, replicas, specs, reports, logger } = this.#deps;
    switch (action.kind) {
      case 'prepare':
        return preparation.begin();
      case 'start':
        this.#deps.onStart();
        return replicas[action.replica]?.start(specs[action.replica]!); // as many specs as workers
      case 'tell':
        logger.info('telling a worker', { worker: action.replica, wish: action.wish });
        return replicas[action.replica]?.tell(action.wish, () => this.#keep());
      case 'heartbeat':
      case 'complete':
        return this.#callHook(action);
      case 'unhealthy':
        return this.#report(action.reason);
      case 'interrupted':
        logger.warn('an interruption is announced', { ...action.interruption });
        return reports?.interrupted(action.interruption);
      case 'start-failed':
        logger.error('the start has failed', { reason: action.reason });
        return reports?.startFailed();
      case 'exit':
        this.#exitCode = action.code;
    }
  }

  async #callHook(action: Extract<HostAction, { kind: 'heartbeat' | 'complete' }>): Promise<void> {
    const { lifecycle, hooks, metrics, logger } = this.#deps;
    const hook = hooks[action.hook];
    if (lifecycle === undefined || hook === undefined) return;
    const call = action.kind === 'heartbeat' ? 'RecordLifecycleActionHeartbeat' : 'CompleteLifecycleAction';
    let outcome: 'done' | 'unknown';
    try {
      outcome = await (action.kind === 'heartbeat'
        ? lifecycle.heartbeat(hook, this.#ended.signal)
        : lifecycle.complete(hook, action.result, this.#ended.signal));
      metrics.lifecycleCall(call, outcome);
      const facts = { hook, outcome, ...('result' in action ? { result: action.result } : {}) };
      logger[action.kind === 'heartbeat' ? 'debug' : 'info'](`lifecycle ${action.kind}`, facts);
    } catch (thrown) {
      metrics.lifecycleCall(call, 'failed');
      throw thrown;
    }
    if (action.kind === 'complete') {
      const after = outcome === 'done' ? completed : refused;
      this.#state = after(this.#state, action.hook, this.#deps.clock.wallMs());
    }
    await this.#keep();
  }

  async #report(reason: string): Promise<void> {
    const { lifecycle, metrics, logger } = this.#deps;
    try {
      await lifecycle?.setUnhealthy(this.#ended.signal);
      metrics.lifecycleCall('SetInstanceHealth', 'done');
    } catch (thrown) {
      metrics.lifecycleCall('SetInstanceHealth', 'failed');
      throw thrown;
    }
    logger.warn('reported as unhealthy', { reason });
    this.#state = reported(this.#state);
    await this.#keep();
  }

  /** Writes what the next agent must know. A full disk does not stop the workers. */
  async #keep(): Promise<void> {
    const { stateFile, replicas } = this.#deps;
    const told = replicas.map((replica) => replica.told);
    await stateFile.write({ state: this.#state, told }).catch(this.#logFailure('the state file'));
  }

  #logFailure(what: string) {
    return (thrown: unknown): void => {
      this.#deps.logger.error(`${what} failed`, { reason: reasonOf(thrown) });
    };
  }

  /** Waits for the next look, or until `wake`. */
  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#deps.clock.after(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
    this.#wake = () => {};
  }
}
