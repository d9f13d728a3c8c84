import type { RefreshStrategy } from '@aws-sdk/client-auto-scaling';

export type Market = 'on-demand' | 'spot';
export type HookResult = 'CONTINUE' | 'ABANDON';
export type HookTransition = 'autoscaling:EC2_INSTANCE_LAUNCHING' | 'autoscaling:EC2_INSTANCE_TERMINATING';
export type PoolState = 'Stopped' | 'Running' | 'Hibernated';

/** Hook of a group, with AWS's defaults. */
export interface HookSpec {
  readonly name: string;
  readonly transition: HookTransition;
  /** @default 3,600 */
  readonly heartbeatSecs?: number;
  /** @default ABANDON */
  readonly defaultResult?: HookResult;
  readonly metadata?: string;
}

export interface WarmPoolSpec {
  readonly minSize: number;
  /** Undefined: the group's maximum size. */
  readonly maxPrepared?: number | undefined;
  readonly state: PoolState;
  readonly reuses: boolean;
}

/** Group as a test describes it. */
export interface GroupSpec {
  readonly name: string;
  /** Instance types that the group tries, in order. */
  readonly types: readonly string[];
  readonly zones: readonly string[];
  /** @default on-demand */
  readonly market?: Market;
  /** Whether it has a mixed instances policy. @default it has if it names several types, or asks for Spot */
  readonly isMixed?: boolean;
  /** @default 0 */
  readonly min?: number;
  readonly max: number;
  /** @default `min` */
  readonly desired?: number;
  readonly hooks?: readonly HookSpec[];
  /** New instances are protected from scale-in from InService on. @default false */
  readonly protectsNew?: boolean;
  readonly rebalances?: boolean;
  /** Instance lifecycle policy with `TerminateHookAbandon: retain`. @default false */
  readonly retains?: boolean;
  readonly warmPool?: WarmPoolSpec;
  /** @default 0 */
  readonly graceSecs?: number;
  /** Default instance warm-up in seconds. */
  readonly warmupSecs?: number;
  /** The launch template names its image by a parameter of Systems Manager. @default false */
  readonly namesImageByParameter?: boolean;
  readonly suspended?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
}

/** Lifecycle action that waits for its completion. */
export interface LifecycleAction {
  readonly hook: HookSpec;
  readonly token: string;
  /** Completes it. */
  readonly end: (result: HookResult, why: string) => void;
  /** Begins its time-out again. */
  readonly heartbeat: () => void;
  /** Ends it without a result. */
  readonly cancel: () => void;
}

export interface FakeInstance {
  readonly id: string;
  readonly group: FakeGroup;
  readonly type: string;
  readonly zone: string;
  readonly market: Market;
  readonly createdAtMs: number;
  state: string;
  /** State that the instance moves to, as its metadata `autoscaling/target-lifecycle-state` says. */
  target: string;
  /** All states that it has had. */
  readonly history: string[];
  isHealthy: boolean;
  isProtected: boolean;
  templateVersion: string;
  imageId: string | undefined;
  inServiceAtMs: number | undefined;
  /** EC2 recommended to replace it. */
  isAtRisk: boolean;
  readonly actions: LifecycleAction[];
  /** Grows with each change of state: timers of an earlier state do nothing. */
  step: number;
}

export interface Activity {
  readonly id: string;
  readonly group: string;
  readonly cause: string;
  readonly startMs: number;
  readonly details: Readonly<Record<string, string>>;
  description: string;
  endMs: number | undefined;
  status: string;
  message: string;
  progress: number;
  instanceId: string;
}

export interface RefreshPreferences {
  readonly minHealthy: number;
  readonly maxHealthy: number;
  readonly warmupSecs: number | undefined;
  readonly bakeSecs: number;
  readonly skipsMatching: boolean;
  readonly rollsBack: boolean;
  readonly protectedOnes: 'Refresh' | 'Ignore' | 'Wait';
  readonly alarms: readonly string[];
}

/** Version of a launch template and, with a mixed policy, the image that overrides its own. */
export interface Template {
  readonly version: string;
  readonly imageId: string | undefined;
}

export interface Refresh {
  readonly id: string;
  readonly strategy: RefreshStrategy;
  readonly preferences: RefreshPreferences;
  readonly startMs: number;
  readonly before: Template;
  /** Whether it can be turned back. */
  readonly isReversible: boolean;
  target: Template;
  /** Instances that it has still to update. */
  readonly remaining: Set<string>;
  total: number;
  status: string;
  reason: string;
  endMs: number | undefined;
  waitsSinceMs: number | undefined;
  bakesSinceMs: number | undefined;
}

export interface FakeGroup {
  readonly spec: GroupSpec;
  readonly name: string;
  readonly arn: string;
  readonly isMixed: boolean;
  readonly createdAtMs: number;
  min: number;
  max: number;
  desired: number;
  hooks: readonly HookSpec[];
  warmPool: WarmPoolSpec | undefined;
  template: Template;
  /** Version that `$Latest` means. */
  latest: string;
  readonly suspended: Set<string>;
  readonly refreshes: Refresh[];
  /** Launches beyond the desired capacity that a refresh asks for. */
  surplus: number;
  /** Time before which a failed launch is not tried again. */
  retryAtMs: number;
  /** Desired capacity for which it has said that all remaining instances are protected. */
  protectedAt: number | undefined;
  isPoked: boolean;
  /** Its instances, oldest first. */
  readonly members: Set<FakeInstance>;
}

/** Times of the fake, in milliseconds. */
export interface Times {
  /** From a change to the group's answer to it. */
  readonly actMs: number;
  /** From a launch to a running instance. */
  readonly launchMs: number;
  /** From the start of a stopped instance of a warm pool until it runs. */
  readonly warmStartMs: number;
  /** From the moment when an instance could wait for its hooks until they are open. */
  readonly hookMs: number;
  /** From the end of its lifecycle actions to `Terminated`. */
  readonly terminateMs: number;
  /** From a failed launch to the next try. */
  readonly retryMs: number;
  /** Replacement of a root volume, until the instance runs again. */
  readonly rootVolumeMs: number;
}

export const DEFAULT_TIMES: Times = {
  actMs: 1000,
  launchMs: 20_000,
  warmStartMs: 10_000,
  hookMs: 0,
  terminateMs: 5000,
  retryMs: 60_000,
  rootVolumeMs: 60_000,
};

/** Calls of a test when something happens to an instance: it may start and stop a real process for each. */
export interface InstanceCallbacks {
  /** Its first boot: it runs. */
  readonly onLaunch?: (instance: FakeInstance) => void;
  /** A stopped instance runs again. */
  readonly onStart?: (instance: FakeInstance) => void;
  readonly onStop?: (instance: FakeInstance) => void;
  readonly onTerminate?: (instance: FakeInstance) => void;
  readonly onState?: (instance: FakeInstance) => void;
}

/** Event in the form of EventBridge. */
export interface BusEvent {
  readonly version: '0';
  readonly id: string;
  readonly 'detail-type': string;
  readonly source: string;
  readonly account: string;
  readonly time: string;
  readonly region: string;
  readonly resources: readonly string[];
  readonly detail: Readonly<Record<string, unknown>>;
}
