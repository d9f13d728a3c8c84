import type {
  ConnectorMemory,
  Observed,
  ObservedInstance,
  Plan,
  PlanContext,
  PoolGpus,
  Step,
} from '../live/connector.ts';
import type { DecisionRecord, Victim } from '../store/types.ts';
import { type PerPool, POOLS } from '../types.ts';
import type { FleetSpec } from './fleet-spec.ts';
import { readMemory } from './memory.ts';
import { type PoolPlan, planPool } from './plan-pool.ts';

/** Most instances that a round chooses to end. */
const VICTIMS_MAX = 8;

/**
 * Returns how to bring a fleet to a decision's targets. Missing workers start on the options in order, except
 * failed ones; surplus workers end instance by instance. It reads no clock and calls nothing.
 */
export function planFleet(
  fleet: FleetSpec,
  { decisionId, targets }: Pick<DecisionRecord, 'decisionId' | 'targets'>,
  { pools = {} }: Observed,
  memory: ConnectorMemory,
  context: PlanContext,
): Plan {
  const plans: PoolPlan[] = [];
  const gpus: { -readonly [pool in keyof PerPool<PoolGpus>]: PoolGpus } = {};
  let known = readMemory(memory);
  const earlier = stillThere(pools, context.victims);
  let victims: readonly Victim[] = earlier;
  for (const pool of POOLS) {
    const [spec, seen] = [fleet.pools[pool], pools[pool]];
    if (spec === undefined || seen === undefined) continue;
    const victimsMax = Math.max(0, VICTIMS_MAX - notEnding(pools, victims).length);
    const common = { target: targets[pool], decisionId, context: { ...context, victims: earlier }, victimsMax };
    const input = { pool, spec, seen, memory: known, ...common };
    const plan = planPool(input);
    plans.push(plan);
    gpus[pool] = plan.gpus;
    known = plan.memory;
    victims = [...victims, ...plan.chosen];
  }
  const drainSecsOf = (victim: Victim): number => fleet.pools[victim.pool]?.drainSecs ?? 0;
  const drains = notEnding(pools, victims).map((victim) => {
    return { instanceId: victim.instanceId, deadlineMs: victim.atMs + 1000 * drainSecsOf(victim) };
  });
  return {
    steps: inOrder(plans.flatMap(({ steps }) => steps)),
    victims,
    drains,
    isDone: plans.every(({ isDone }) => isDone),
    shortage: plans.find(({ shortage }) => shortage !== undefined)?.shortage,
    note: plans.find(({ note }) => note !== undefined)?.note,
    gpus,
    memory: { ...known },
  };
}

/**
 * Returns the victims that the environment still lists: a newer instance may have the id of one that has ended. Earlier
 * versions stored no uid: then an instance that is older than the choice is the one that was chosen.
 */
function stillThere(pools: NonNullable<Observed['pools']>, victims: readonly Victim[]): readonly Victim[] {
  const instances = new Map(instancesOf(pools).map((instance) => [instance.id, instance]));
  return victims.filter(({ instanceId, uid, atMs }) => {
    const instance = instances.get(instanceId);
    if (instance === undefined || instance.uid === uid) return instance !== undefined;
    return uid === undefined && (instance.createdMs ?? 0) <= atMs;
  });
}

/** Returns the victims whose end the environment does not show yet. */
function notEnding(pools: NonNullable<Observed['pools']>, victims: readonly Victim[]): readonly Victim[] {
  const draining = instancesOf(pools).filter(({ state }) => state === 'draining');
  const ids = new Set(draining.map(({ id }) => id));
  return victims.filter(({ instanceId }) => !ids.has(instanceId));
}

function instancesOf(pools: NonNullable<Observed['pools']>): readonly ObservedInstance[] {
  return Object.values(pools).flatMap(({ options }) => options.flatMap(({ instances }) => instances));
}

/** Terminations come before changes of group size, in the whole fleet: one pool may give GPUs to another. */
function inOrder(steps: readonly Step[]): readonly Step[] {
  const isEnd = ({ kind }: Step): boolean => kind === 'terminate';
  return [...steps.filter(isEnd), ...steps.filter((step) => !isEnd(step))];
}
