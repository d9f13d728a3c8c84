import { VirtualClock } from '../../virtual-clock.ts';
import { type BusEvent, type FakeAutoScaling, type FakeAutoScalingOptions, startAutoScaling } from './index.ts';
import type { GroupSpec, HookSpec } from './types.ts';

export const LAUNCH_HOOK: HookSpec = {
  name: 'launch',
  transition: 'autoscaling:EC2_INSTANCE_LAUNCHING',
  heartbeatSecs: 300,
  defaultResult: 'ABANDON',
};

export const TERMINATE_HOOK: HookSpec = {
  name: 'terminate',
  transition: 'autoscaling:EC2_INSTANCE_TERMINATING',
  heartbeatSecs: 300,
  defaultResult: 'CONTINUE',
};

/** Group of one type in one zone, as a test needs it most often. */
export function groupSpec(spec: Partial<GroupSpec> = {}): GroupSpec {
  return { name: 'g', types: ['g6e.12xlarge'], zones: ['us-east-1a'], max: 8, ...spec };
}

export interface Fake extends FakeAutoScaling {
  readonly clock: VirtualClock;
  readonly events: BusEvent[];
  /** States of the instances of a group, oldest first. */
  states(group?: string): string[];
  /** Types of the events so far. */
  told(): string[];
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a fake on a virtual clock that keeps its events. */
export async function startFake(
  options: Partial<FakeAutoScalingOptions> & { readonly groups: readonly GroupSpec[] },
): Promise<Fake> {
  const clock = new VirtualClock();
  const events: BusEvent[] = [];
  const fake = await startAutoScaling({ clock, onEvent: (event) => events.push(event), ...options });
  return {
    ...fake,
    clock,
    events,
    states: (group = 'g') => fake.instances(group).map(({ state }) => state),
    told: () => events.map((event) => event['detail-type']),
    [Symbol.asyncDispose]: () => fake.stop(),
  };
}
