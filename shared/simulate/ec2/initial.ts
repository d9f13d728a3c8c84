import { type PoolSpec, unitOf } from '../../planner/index.ts';

/** Returns the instances of each option for a number of workers: the least numbers first, then along the list. */
export function placeWorkers(spec: PoolSpec, workers: number): readonly number[] {
  const units = spec.options.map((option) => Math.ceil(option.min / unitOf(option, spec).instances));
  let missing = workers - workersIn(spec, units);
  for (const [at, option] of spec.options.entries()) {
    const { replicas, instances } = unitOf(option, spec);
    const room = Math.floor(option.max / instances) - units[at]!;
    const more = Math.max(0, Math.min(room, Math.ceil(missing / replicas)));
    units[at]! += more;
    missing -= more * replicas;
  }
  return units.map((count, at) => count * unitOf(spec.options[at]!, spec).instances);
}

/** Returns the workers with which a pool begins: as many as are asked for, in whole instances and within its bounds. */
export function initialWorkers(spec: PoolSpec, workers: number): number {
  const counts = placeWorkers(spec, workers);
  const units = counts.map((count, at) => count / unitOf(spec.options[at]!, spec).instances);
  return workersIn(spec, units);
}

function workersIn(spec: PoolSpec, units: readonly number[]): number {
  return units.reduce((total, count, at) => total + count * unitOf(spec.options[at]!, spec).replicas, 0);
}
