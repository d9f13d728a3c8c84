import type { Connector } from '../../../shared/planner/index.ts';
import type { Plan } from '../../../shared/planner/live/connector.ts';
import type { Targets } from '../../../shared/planner/types.ts';

const NEVER = new AbortController().signal;

/**
 * Returns the plan of `connector` for targets, of the fleet as it is.
 * @param nowMs time of the plan in Unix milliseconds
 */
export async function planOf(connector: Connector, targets: Targets, nowMs = 0): Promise<Plan> {
  const observed = await connector.observe(NEVER);
  return connector.plan({ decisionId: 0, targets }, observed, {}, { nowMs, victims: [], tickSeconds: 5 });
}

/** Hands targets to `connector` once. */
export async function handTargets(connector: Connector, targets: Targets, nowMs = 0) {
  const { steps } = await planOf(connector, targets, nowMs);
  return steps.length === 0 ? 'accepted' : await connector.apply(steps, NEVER);
}

/** Whether the fleet of `connector` is what `targets` say. */
export async function isDone(connector: Connector, targets: Targets, nowMs = 0): Promise<boolean> {
  return (await planOf(connector, targets, nowMs)).isDone;
}
