import type { WorkerPool } from './types.ts';

/** One name for each pool: a key may have a pool in several roles. */
export function poolName({ role, key }: Pick<WorkerPool, 'role' | 'key'>): string {
  return `${role} ${key}`;
}
