import type { Random } from '../../clock/index.ts';
import type { OptionSpec } from '../../planner/index.ts';
import type { OptionConditions } from './conditions.ts';
import type { SimulatedInstance } from './instance.ts';

/** Time in a simulation. Times in virtual milliseconds. */
export interface SimulatedTime {
  readonly nowMs: number;
  /** Unix time of the moment at which the simulation begins. */
  readonly beginsAtMs: number;
  after(delayMs: number, callback: () => void): void;
}

/** Hears of the instances of a group. */
export interface GroupListener {
  /** An instance is in service. */
  serves(instance: SimulatedInstance): void;
  /** EC2 takes an instance in two minutes. */
  isNoticed(instance: SimulatedInstance): void;
  /** The end of an instance has begun. `SimulatedGroup.drained` tells that it may go. */
  drains(instance: SimulatedInstance): void;
  /** An instance was taken away. */
  isLost(instance: SimulatedInstance): void;
  /** An event of EventBridge. */
  tells(event: object): void;
}

export interface GroupOptions {
  readonly spec: OptionSpec;
  readonly conditions: OptionConditions;
  readonly time: SimulatedTime;
  readonly random: Random;
  readonly listener: GroupListener;
  /** Instances that serve at the start. */
  readonly count: number;
}
