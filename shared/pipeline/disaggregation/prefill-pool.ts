import type { ModelCard, ModelRecord } from '../../discovery/index.ts';
import type { WorkerPool } from '../../router/index.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';

/** The prefill workers of a model whose decode workers have their prompts computed elsewhere. */
export interface PrefillPool {
  readonly pool: WorkerPool;
  /** At least one, in key order. */
  readonly workers: readonly Worker[];
}

/** Where requests are prefilled, as far as discovery says. */
export type PrefillState = 'pending' | 'active' | 'unavailable';

/**
 * | State | a prefill worker is there | none is |
 * |---|---|---|
 * | pending | active | pending |
 * | active | active | unavailable |
 * | unavailable | active | unavailable |
 */
export function nextPrefillState(state: PrefillState, hasWorkers: boolean): PrefillState {
  if (hasWorkers) return 'active';
  return state === 'pending' ? 'pending' : 'unavailable';
}

/** The pool of prefill workers beside `pool`. Its key is its own, as pools come and go one by one. */
export function prefillPoolOf(pool: WorkerPool, workers: readonly Worker[]): PrefillPool | undefined {
  if (pool.role !== 'decode' || workers.length === 0) return undefined;
  return { pool: { ...pool, key: `${pool.key}.prefill`, role: 'prefill' }, workers };
}

/** The worker sets of a model as routing follows them: its own, and its prefill workers as one more. */
export function workerSetsOf(model: RoutableModel): readonly RoutableModel[] {
  const { prefill } = model;
  return prefill === undefined ? [model] : [model, { ...model, ...prefill, prefill: undefined }];
}

export function isPrefill({ card }: ModelRecord): boolean {
  return card.worker_type === 'prefill';
}

/**
 * Whether blocks that a worker with the card `prefill` computes are those that one with the card `decode` needs: what prompts
 * are made of is equal. How answers are read is the decode worker's alone.
 */
export function computesFor(prefill: ModelCard, decode: ModelCard): boolean {
  if (prefill.kv_cache_block_size !== decode.kv_cache_block_size) return false;
  if (prefill.model_input !== decode.model_input) return false;
  const [ours, theirs] = [Object.entries(prefill.files), decode.files];
  return ours.every(([role, { checksum }]) => theirs[role] === undefined || theirs[role].checksum === checksum);
}
