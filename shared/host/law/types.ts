/** Lifecycle hook of a group. */
export type Hook = 'launch' | 'terminate';

export const DRAIN_REASONS = ['stop', 'terminated', 'warmed', 'spot', 'block-end', 'gpu', 'worker'] as const;

/** Why workers drain. */
export type DrainReason = (typeof DRAIN_REASONS)[number];

/**
 * Phase of an instance:
 *
 *     warming -> warm -> starting -> serving -> draining -> drained -> (warm | end)
 *        |                  |                      ^
 *        +----> failed <----+         any other phase, if the instance must end
 */
export type Phase =
  | { readonly kind: 'starting' | 'warming'; readonly sinceMs: number }
  | { readonly kind: 'warm' | 'serving' }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'draining'; readonly reason: DrainReason; readonly sinceMs: number; readonly untilMs: number }
  | { readonly kind: 'drained'; readonly reason: DrainReason };

/** Hook whose action Auto Scaling did not know. Times are Unix ms. */
export interface UnopenedHook {
  /** Time of the first refusal. */
  readonly sinceMs: number;
  /** Time from which the agent tries again. */
  readonly retryAtMs: number;
}

/** State that the agent keeps from one step to the next. It outlives the agent, but not a boot. */
export interface InstanceState {
  readonly phase: Phase;
  /** Whether the launch hook of the current start is complete. */
  readonly isLaunched: boolean;
  /** Whether the terminate hook of the current end is complete. */
  readonly isEnded: boolean;
  /** Hooks that Auto Scaling did not know when the agent completed them, because they may open later. */
  readonly unopened: Readonly<Partial<Record<Hook, UnopenedHook>>>;
  /** Whether Auto Scaling was told that this instance is unhealthy. */
  readonly isReported: boolean;
  /** Time of the last heartbeat, or of the start of the wait for which heartbeats count. */
  readonly heartbeatAtMs: number;
  /** Notices that the planner was told of, the newest of each kind. */
  readonly told: { readonly spotAtMs?: number; readonly rebalanceAtMs?: number; readonly blockEndsAtMs?: number };
}

export const WISHES = ['nothing', 'drain', 'hurry', 'kill'] as const;

/** Strongest wish that the agent has sent to a worker. After `hurry` it ends at once, and its streams move. */
export type Told = (typeof WISHES)[number];

/** One worker as the agent sees it. */
export interface ReplicaFacts {
  /** `ready` = its status server answers 200, which it does only once it is registered. */
  readonly state: 'absent' | 'starting' | 'ready';
  readonly told: Told;
  /** How often it has ended by itself: since the start began, and later within the last ten minutes. */
  readonly failures: number;
  /** Time of its last end, in ms. */
  readonly endedAtMs?: number | undefined;
}

/** Facts at one moment. Times are Unix ms, because some outlive the agent. */
export interface Facts {
  readonly nowMs: number;
  /** Target state of Auto Scaling; undefined outside a group, and while the metadata cannot be read. */
  readonly target?: string | undefined;
  readonly spotAtMs?: number | undefined;
  readonly rebalanceAtMs?: number | undefined;
  readonly replicas: readonly ReplicaFacts[];
  /** Image and weights. */
  readonly preparation: 'idle' | 'running' | 'done' | 'failed';
  /** Time at which bytes of image or weights, or lines of an engine, last came. */
  readonly progressAtMs: number;
  /** Fault of a GPU, in words; undefined = none is known. */
  readonly gpuFault?: string | undefined;
  /** Whether the agent itself must end. */
  readonly isStopping: boolean;
}

/** Rules of an instance, from its settings. */
export interface Rules {
  readonly hasGroup: boolean;
  readonly hasHook: Readonly<Record<Hook, boolean>>;
  readonly startMs: number;
  readonly drainMs: number;
  readonly heartbeatMs: number;
  /** End of the capacity block; undefined = none. */
  readonly blockEndsAtMs?: number | undefined;
}

/** Interruption that the planner must hear of. */
export interface Interruption {
  readonly kind: 'spot-warning' | 'rebalance';
  readonly deadlineAtMs?: number | undefined;
}

/** Deed that the agent must do now. The same action may come again until its effect shows in the facts or the state. */
export type HostAction =
  | { readonly kind: 'prepare' }
  | { readonly kind: 'start'; readonly replica: number }
  | { readonly kind: 'tell'; readonly replica: number; readonly wish: Exclude<Told, 'nothing'> }
  | { readonly kind: 'heartbeat'; readonly hook: Hook }
  | { readonly kind: 'complete'; readonly hook: Hook; readonly result: 'CONTINUE' | 'ABANDON' }
  | { readonly kind: 'unhealthy'; readonly reason: string }
  | { readonly kind: 'interrupted'; readonly interruption: Interruption }
  | { readonly kind: 'start-failed'; readonly reason: string }
  | { readonly kind: 'exit'; readonly code: number };

export interface Step {
  readonly state: InstanceState;
  readonly actions: readonly HostAction[];
}
