import type { Inhibition } from '../../router/indexless/index.ts';
import type { Worker } from '../models/model-directory.ts';

/** `excluded`, with those of `workers` that said that they are full while another one is left for the request. */
export function passingOverFull(
  excluded: ReadonlySet<string>,
  workers: readonly Worker[],
  fullWorkers: Inhibition,
): ReadonlySet<string> {
  if (fullWorkers.isEmpty) return excluded;
  const open = workers.filter(({ id }) => !excluded.has(id));
  const full = open.filter(({ id }) => fullWorkers.has(id));
  // When all are full one of them says so, or has a place again.
  if (full.length === 0 || full.length === open.length) return excluded;
  return new Set([...excluded, ...full.map(({ id }) => id)]);
}
