import type { Instance } from '@aws-sdk/client-auto-scaling';

type WarmState = 'Warmed:Pending' | 'Warmed:Stopped' | 'Warmed:Hibernated' | 'Warmed:Running';
/** Lifecycle states of "Amazon EC2 Auto Scaling instance lifecycle" that a simulated group uses. */
export type InstanceState =
  | 'Pending'
  | 'Pending:Wait'
  | 'InService'
  | 'Terminating:Wait'
  | 'Terminating:Proceed'
  | WarmState;

/** Instance of a simulated group. */
export class SimulatedInstance {
  readonly id: string;
  readonly zone: string;
  readonly createdMs: number;
  /** EC2 takes it soon. A group that rebalances replaces it before. */
  isAtRisk = false;
  rate: 'full' | 'warm' | undefined;
  /** Grows with each change of state: timers of an earlier state do nothing. */
  step = 0;
  #state: InstanceState = 'Pending';
  #described: Instance | undefined;

  constructor(id: string, zone: string, createdMs: number) {
    this.id = id;
    this.zone = zone;
    this.createdMs = createdMs;
  }

  get state(): InstanceState {
    return this.#state;
  }

  set state(state: InstanceState) {
    this.#state = state;
    this.#described = undefined;
    this.step++;
  }

  /** Whether it counts toward the desired capacity of its group. */
  get isCounted(): boolean {
    return this.isStarting || this.#state === 'InService';
  }

  /** Whether it starts, to serve. It waits in the launch hook of its group from the moment that EC2 has it. */
  get isStarting(): boolean {
    return this.#state === 'Pending' || this.#state === 'Pending:Wait';
  }

  get isWarm(): boolean {
    return this.#state.startsWith('Warmed:');
  }

  /** Whether it waits in the warm pool and can be taken from it. */
  get isPrepared(): boolean {
    return this.isWarm && this.#state !== 'Warmed:Pending';
  }

  /** The instance as its group describes it; built once for each state. Instances that serve are protected. */
  get described(): Instance {
    this.#described ??= {
      InstanceId: this.id,
      AvailabilityZone: this.zone,
      LifecycleState: this.#state as Instance['LifecycleState'],
      HealthStatus: 'Healthy',
      ProtectedFromScaleIn: this.#state === 'InService',
    };
    return this.#described;
  }
}
