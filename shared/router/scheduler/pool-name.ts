import type { WorkerPool } from '../types.ts';

const names = new WeakMap<Pick<WorkerPool, 'role' | 'key'>, string>(); // every request asks, of few pools

/** One name for each pool: a key may have a pool in several roles. */
export function poolName(pool: Pick<WorkerPool, 'role' | 'key'>): string {
  const known = names.get(pool);
  if (known !== undefined) return known;
  const name = `${pool.role} ${pool.key}`;
  names.set(pool, name);
  return name;
}
