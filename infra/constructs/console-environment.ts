import { Stack } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';
import { type Settings, typeOf } from '../settings/index.ts';
import type { PlannerTable } from './planner/planner-table.ts';

/** Region of the list prices that Stator knows. */
const LISTED_REGION = 'us-east-1';

/** Returns whether browsers reach the console of a container edge. */
export function hasConsole({ edges }: Settings): boolean {
  return edges.container.listener !== 'none';
}

/** Returns what lets the console of a container edge show the planner, and what the fleets cost. */
export function consoleEnvironment(scope: IConstruct, settings: Settings, plans: PlannerTable | undefined) {
  if (!hasConsole(settings)) return {};
  const prices = pricesOf(settings, Stack.of(scope).region);
  return {
    ...(plans === undefined ? {} : { STATOR_PLANNER_TABLE: plans.tableName }),
    ...(prices.length === 0 ? {} : { STATOR_INSTANCE_PRICES: prices.join(',') }),
  };
}

/**
 * Returns the on-demand prices of the types that the fleets may have, as STATOR_INSTANCE_PRICES takes them: those of
 * the settings, and list prices in the region of the list.
 */
function pricesOf({ fleets, instanceTypes }: Settings, region: string): readonly string[] {
  const options = Object.values(fleets).flatMap((fleet) => (fleet.kind === 'mock' ? [] : fleet.options));
  const named = options.flatMap(({ types }) => types);
  return [...new Set(named)].sort().flatMap((name) => {
    const { hourUsd } = (region === LISTED_REGION ? typeOf(name, instanceTypes) : instanceTypes[name]) ?? {};
    return hourUsd === undefined ? [] : [`${name}=${hourUsd}`];
  });
}
