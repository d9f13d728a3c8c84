import type { CountedWorkers } from '../decide/worker-counts.ts';
import type { Observed, ObservedPool } from './connector.ts';

/** Returns the workers as the environment counts them; undefined if it does not. */
export function countedOf({ pools }: Observed): CountedWorkers | undefined {
  if (pools === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(pools).map(([pool, of]) => {
      const { ready, starting } = of;
      return [pool, { ready, starting, failing: failingOf(of), serving: servingOf(of) }];
    }),
  );
}

/** Returns the instances that serve; undefined for a pool without options, of which no instance is listed. */
function servingOf({ options }: ObservedPool): ReadonlySet<string> | undefined {
  if (options.length === 0) return undefined;
  const instances = options.flatMap((option) => option.instances.filter(({ state }) => state === 'ready'));
  return new Set(instances.map(({ id }) => id));
}

/** Returns the starting workers of options whose newest launch failed. Options count in instances, pools in workers. */
function failingOf({ starting, options }: ObservedPool): number {
  const instances = options.reduce((total, option) => total + option.starting, 0);
  const failing = options.reduce((total, option) => total + (option.failing === undefined ? 0 : option.starting), 0);
  return instances === 0 ? 0 : Math.round((starting * failing) / instances);
}
