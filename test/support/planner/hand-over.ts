import type { Connector } from '../../../shared/planner/index.ts';
import type { Plan } from '../../../shared/planner/live/connector.ts';
import type { Targets } from '../../../shared/planner/types.ts';

const NEVER = new AbortController().signal;

/** The plan of `connector` for targets, of the fleet as it is. */
export async function planOf(connector: Connector, targets: Targets, signal = NEVER): Promise<Plan> {
  const observed = await connector.observe(signal);
  return connector.plan({ decisionId: 0, targets }, observed, {}, { nowMs: 0, victims: [], tickSeconds: 5 });
}

/** Hands targets to `connector` once. */
export async function handTargets(connector: Connector, targets: Targets, signal = NEVER) {
  const { steps } = await planOf(connector, targets, signal);
  return steps.length === 0 ? 'accepted' : await connector.apply(steps, signal);
}

/** Whether the fleet of `connector` is what `targets` say. */
export async function isDone(connector: Connector, targets: Targets): Promise<boolean> {
  return (await planOf(connector, targets)).isDone;
}
