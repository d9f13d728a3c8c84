import type { DecisionRecord, PlannerStore, Reservations } from '../store/types.ts';
import type { EngineCapabilities, PerPool, Pool } from '../types.ts';
import type { Plan } from './connector.ts';

interface BudgetOptions {
  readonly store: Pick<PlannerStore, 'reserve' | 'reservations'>;
  readonly group: string;
  /** GPUs of all models together. */
  readonly gpusMax: number;
  readonly engines: PerPool<EngineCapabilities>;
}

/** A plan for which its GPUs are reserved. */
interface BudgetedPlan {
  readonly plan: Plan;
  /** All of the decision, as much as there is room for now, or nothing of it. */
  readonly granted: 'all' | 'part' | 'none';
}

/**
 * Reserves the GPUs of a decision. Pools that give GPUs to another pool keep them until their instances are gone, so
 * the other pool grows then. @param planOf returns the plan within GPUs by pool
 */
export async function planWithinBudget(
  planOf: (gpusMax?: PerPool<number>) => Plan,
  decision: DecisionRecord,
  { store, group, gpusMax, engines }: BudgetOptions,
  signal: AbortSignal,
): Promise<BudgetedPlan> {
  const plan = planOf();
  const { gpus } = plan;
  const reserve = (pools: PerPool<number>): Promise<boolean> => store.reserve(named(group, pools), gpusMax, signal);
  if (gpus === undefined) {
    const wanted = mapPools(decision.targets, (count, pool) => count * (engines[pool]?.gpus ?? 1));
    return { plan, granted: (await reserve(wanted)) ? 'all' : 'none' };
  }
  if (await reserve(mapPools(gpus, ({ planned }) => planned))) return { plan, granted: 'all' };
  const held = mapPools(gpus, (each) => each.held);
  const room = gpusMax - othersOf(await store.reservations(signal), group);
  const isPossible = sumOf(mapPools(gpus, ({ settled }) => settled)) <= room;
  if (isPossible) {
    let rest = Math.max(0, room - sumOf(held));
    const limits = mapPools(gpus, (each) => {
      const more = Math.min(rest, Math.max(0, each.planned - each.held));
      rest -= more;
      return each.held + more;
    });
    const part = planOf(limits);
    if (await reserve(mapPools(part.gpus ?? {}, ({ planned }) => planned))) return { plan: part, granted: 'part' };
  }
  await reserve(held); // what is gone is free for others
  return { plan: planOf(held), granted: isPossible ? 'part' : 'none' };
}

function named(group: string, pools: PerPool<number>): Reservations {
  return Object.fromEntries(Object.entries(pools).map(([pool, gpus]) => [`${group}/${pool}`, gpus]));
}

function othersOf(all: Reservations, group: string): number {
  return sumOf(Object.fromEntries(Object.entries(all).filter(([name]) => !name.startsWith(`${group}/`))));
}

function sumOf(values: Readonly<Record<string, number>>): number {
  return Object.values(values).reduce((total, each) => total + each, 0);
}

function mapPools<T>(pools: PerPool<T>, change: (value: T, pool: Pool) => number): PerPool<number> {
  return Object.fromEntries(Object.entries(pools).map(([pool, value]) => [pool, change(value, pool as Pool)]));
}
