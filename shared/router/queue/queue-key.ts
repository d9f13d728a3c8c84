import { assertNever } from '../../errors/index.ts';
import type { QueuePolicy } from '../config/kv-config.ts';

/**
 * Urgency of a waiting request, larger first.
 * @param arrivedSecs seconds from any fixed instant to its arrival
 * @param jumpSecs seconds ahead of its arrival; below 0 counts as 0
 * @param costTokens prompt tokens that no eligible worker has cached, at least 1
 */
export function queueKey(policy: QueuePolicy, arrivedSecs: number, jumpSecs: number, costTokens: number): number {
  const jump = Math.max(0, jumpSecs);
  switch (policy) {
    case 'fcfs':
      return jump - arrivedSecs;
    case 'lcfs':
      return jump + arrivedSecs;
    case 'wspt':
      return (1 + jump) / Math.max(1, costTokens);
    default:
      return assertNever(policy);
  }
}
