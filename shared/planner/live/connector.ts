import type { DecisionRecord, Victim } from '../store/types.ts';
import type { PerPool, Pool, Targets } from '../types.ts';

/** Instance of an option, as the environment lists it. An environment without instances counts each worker as one. */
export interface ObservedInstance {
  readonly id: string;
  /** `starting` until it serves. `draining` from the moment that its end is certain. */
  readonly state: 'starting' | 'ready' | 'draining';
  /** Uid that the environment gives it, if a later instance may get the same id. */
  readonly uid?: string | undefined;
  /** Time at which it was made, in Unix milliseconds. @default unknown */
  readonly createdMs?: number | undefined;
  /** Time from which it serves, in Unix milliseconds; undefined: longer ago than the environment remembers. */
  readonly readySinceMs?: number | undefined;
  /** KV blocks in use by running requests, over all its workers; undefined: no worker of it was heard. */
  readonly activeBlocks?: number | undefined;
  /** Generation of its configuration; the oldest sorts first. */
  readonly generation?: string | undefined;
  /** Engine that it is a part of, if an engine needs several instances. */
  readonly engine?: string | undefined;
  readonly isUnhealthy?: boolean | undefined;
}

/** The newest launch of an option, if it failed. */
export interface LaunchFailure {
  /** Code of the environment, such as `InsufficientInstanceCapacity`. */
  readonly code: string;
  /** Undefined: in every zone of the option. */
  readonly zone?: string | undefined;
  /** Types of instances that failed; none: all types of the option. */
  readonly types: readonly string[];
  readonly atMs: number;
  /** Words of the environment, if they say more than the code. */
  readonly reason?: string | undefined;
  /** Least time in milliseconds before the option is tried again, if failures are noticed late. @default one minute */
  readonly pauseMs?: number | undefined;
}

/** An option of a pool as it is. Counts are in instances. */
export interface ObservedOption {
  readonly id: string;
  readonly ready: number;
  readonly starting: number;
  readonly draining: number;
  /** Number of instances that the environment works towards. */
  readonly desired: number;
  /** Bounds that the environment refuses to leave. */
  readonly min: number;
  readonly max: number;
  /** Undefined once a newer launch has succeeded. */
  readonly failing?: LaunchFailure | undefined;
  /** The newest launch that failed while this process watched, for people; it stays once launches succeed. */
  readonly lastFailure?: LaunchFailure | undefined;
  /** The environment replaces instances by itself, so that it may have more of them than desired for a while. */
  readonly isRebalancing?: boolean | undefined;
  /** The environment does not have the option: it was not deployed yet, or is gone. */
  readonly isAbsent?: boolean | undefined;
  readonly instances: readonly ObservedInstance[];
  /** @default an instance is a worker */
  readonly unit?: ObservedUnit | undefined;
}

/** Workers of an option on its instances. */
interface ObservedUnit {
  /** Workers on that many instances. */
  readonly replicas: number;
  readonly instances: number;
  /** GPUs that one instance has for itself. */
  readonly gpus: number;
  /** GPUs that all instances of the option use together. @default 0 */
  readonly sharedGpus?: number | undefined;
}

/** A pool as it is. Counts are in workers. */
export interface ObservedPool {
  readonly ready: number;
  /** Workers that will come. Those of an option that fails will not. */
  readonly starting: number;
  readonly draining: number;
  readonly desired: number;
  /** An instance refresh is in progress. */
  readonly refreshing: boolean;
  /** Empty for an environment without options. */
  readonly options: readonly ObservedOption[];
}

/** A fleet as an environment knows it. */
export interface Observed {
  /** Undefined: the environment does not count workers, so those that were heard count. */
  readonly pools?: PerPool<ObservedPool> | undefined;
  /** Targets that were left for an environment that scales by itself, and whether it has carried them out. */
  readonly handed?: { readonly targets: Targets; readonly isCarriedOut: boolean } | undefined;
  /** Seconds from a decision to a worker that serves: the 90th percentile, if it is known. */
  readonly startSeconds?: number | undefined;
  /**
   * Seconds from the order of a machine until it exists: the 90th percentile, if it is known. It is the phase
   * `capacity` of a start; the machine itself measures the phases after it.
   */
  readonly capacitySeconds?: number | undefined;
}

/**
 * One act of a plan. Steps are carried out in their order. After a step that fails, those of the same option that
 * follow it are left out.
 */
export type Step =
  /** Leaves targets for an environment that scales by itself. */
  | { readonly kind: 'targets'; readonly targets: Targets }
  /** Ends one instance and lowers its option's desired number by one. An instance that is gone counts as done. */
  | { readonly kind: 'terminate'; readonly pool: Pool; readonly option: string; readonly instanceId: string }
  /** Sets the desired number of instances of an option: absolute, and within the option's bounds. */
  | { readonly kind: 'desire'; readonly pool: Pool; readonly option: string; readonly desired: number };

/** Capacity that is missing although every option was tried. */
export interface Shortage {
  readonly code: string;
  /** Option that failed last; undefined: the fleet is as large as its options allow. */
  readonly option?: string | undefined;
  /** One sentence. */
  readonly problem: string;
}

/** GPUs of a pool's instances. */
export interface PoolGpus {
  /** GPUs of instances that exist or are on order now, draining ones too. */
  readonly held: number;
  /** GPUs held, and those of instances that the plan launches. */
  readonly planned: number;
  /** GPUs that stay once everything that is surplus is gone. */
  readonly settled: number;
}

export interface Plan {
  readonly steps: readonly Step[];
  /** Instances whose end was decided and that are not gone yet, those of earlier rounds first. */
  readonly victims: readonly Victim[];
  /** The fleet is what was decided. */
  readonly isDone: boolean;
  readonly shortage?: Shortage | undefined;
  /** Sentence about something that a person should know and that does not stop the plan. */
  readonly note?: string | undefined;
  /** Undefined: the workers of the targets count. */
  readonly gpus?: PerPool<PoolGpus> | undefined;
  /** Instances that must take no new requests, with the time at which their drain ends. */
  readonly drains?: readonly { readonly instanceId: string; readonly deadlineMs: number }[] | undefined;
  /** State for the next plan, as plain values. */
  readonly memory: ConnectorMemory;
}

/** Memory of a connector between two plans: a JSON object that only the connector's `plan` reads. */
export type ConnectorMemory = Readonly<Record<string, unknown>>;

export interface PlanContext {
  readonly nowMs: number;
  /** Instances that this or an earlier decision has chosen. */
  readonly victims: readonly Victim[];
  /** Seconds between two ticks. */
  readonly tickSeconds: number;
  /** Seconds that an instance serves before it may end, at least three intervals between ticks. @default 180 */
  readonly minInstanceSeconds?: number | undefined;
  /** Most GPUs of a pool; a pool that is left out has no bound. Surplus GPUs are no reason to end an instance. */
  readonly gpusMax?: PerPool<number> | undefined;
}

/** Outcome of steps that were handed over. */
export type Applied =
  /** The environment will carry them out. */
  | 'accepted'
  /** Earlier ones are not carried out yet: plan again later. */
  | 'waiting'
  /** The environment refuses them, with its code and its words; a failure that may pass rejects instead. */
  | { readonly failed: string; readonly reason?: string | undefined };

/**
 * Carries out decisions: reads the fleet, plans, and acts. All numbers are absolute, so that acting twice does no harm.
 */
export interface Connector {
  readonly name: string;
  /** Milliseconds after which a decision is given up. @default twice the start of a worker, at least ten minutes */
  readonly waitMsMax?: number | undefined;
  observe(signal: AbortSignal): Promise<Observed>;
  /** Returns how to bring the fleet to the decision's targets. Pure: the same input has the same plan. */
  plan(
    decision: Pick<DecisionRecord, 'decisionId' | 'targets'>,
    observed: Observed,
    memory: ConnectorMemory,
    context: PlanContext,
  ): Plan;
  apply(steps: readonly Step[], signal: AbortSignal): Promise<Applied>;
  close(): Promise<void>;
}
