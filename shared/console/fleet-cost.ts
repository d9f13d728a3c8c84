import type { InstancePrice } from '../config/index.ts';
import type { HostFacts } from '../discovery/index.ts';
import type { ConsoleCost } from './wire/fleet.ts';

/** Types of machines that are shown, those with the most machines first. */
const TYPES_MAX = 64;

/**
 * Returns what the machines cost now, as far as the operator has stated prices. No price is assumed: it depends on
 * region, market and contract.
 * @param without number of workers that do not state their machine
 */
export function costOf(hosts: Iterable<HostFacts>, without: number, prices: readonly InstancePrice[]): ConsoleCost {
  const groups = new Map<string, { readonly host: HostFacts; machines: number }>();
  for (const host of hosts) {
    const key = `${host.instance_type ?? ''} ${host.market ?? ''}`;
    const group = groups.get(key) ?? { host, machines: 0 };
    group.machines++;
    groups.set(key, group);
  }
  const types = [...groups.values()]
    .map(({ host: { instance_type: type, market }, machines }) => {
      const price = prices.find((each) => each.type === type && each.market === market);
      return { type: type ?? null, market: market ?? null, machines, hour_usd: price?.hourUsd ?? null };
    })
    .sort((a, b) => b.machines - a.machines);
  const priced = types.filter((each) => each.hour_usd !== null);
  return {
    hour_usd: priced.length === 0 ? null : priced.reduce((sum, each) => sum + each.machines * (each.hour_usd ?? 0), 0),
    types: types.slice(0, TYPES_MAX),
    workers_without_machine: without,
  };
}
