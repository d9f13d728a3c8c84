import type { SchedulingRequest } from '../scheduler/scheduler-types.ts';

/** The line of the requests that any worker may take. */
export const ANYWHERE = '';

/**
 * Names the line of a request among those that wait: requests that the same ranks may take stand in one. Sets of ids are
 * told apart by a checksum: where two have the same, which is one case in 2^32, their requests wait for each other.
 */
export function laneName(request: SchedulingRequest): string {
  const { pinned, constraints, allowedWorkers, excludedWorkers, busyWorkers, avoidedWorkers } = request;
  if (pinned !== undefined) return `${pinned.workerId} ${pinned.dpRank ?? ''}`;
  const taints = constraints?.required_taints ?? [];
  const allowed = allowedWorkers === undefined ? '' : `only ${sumOf(allowedWorkers)}`;
  const passedOver = [excludedWorkers, busyWorkers, avoidedWorkers].map(sumOf);
  if (taints.length === 0 && allowed === '' && passedOver.every((sum) => sum === '')) return ANYWHERE;
  return JSON.stringify([[...new Set(taints)].sort(), allowed, passedOver]);
}

/** A checksum of a set of ids, whatever their order; empty for no ids. */
function sumOf(ids: ReadonlySet<string> | undefined): string {
  if (ids === undefined) return '';
  let sum = 0;
  for (const id of ids) sum = (sum + hashOf(id)) >>> 0;
  return ids.size === 0 ? '' : `${ids.size}:${sum}`;
}

/** FNV-1a of the text, mixed so that sums of similar ids differ. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
  return (hash ^ (hash >>> 15)) >>> 0;
}
