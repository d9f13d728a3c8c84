import type { Discovery } from '../../discovery/index.ts';
import type { ActOptions } from './act.ts';

/** Returns the function by which a planner orders the workers of instances to drain. */
export function drainOrders(discovery: Pick<Discovery, 'orderDrain'>): NonNullable<ActOptions['orderDrain']> {
  return async (instanceIds, deadlineMs, signal) => {
    await discovery.orderDrain(instanceIds, { reason: 'the planner ends its instance', deadlineMs }, signal);
  };
}
