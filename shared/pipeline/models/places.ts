import type { RoutableModel, Worker } from './model-directory.ts';

/** Requests that `workers` of `model` take at once, as its card says; no bound where it does not. */
export function placesOf(model: RoutableModel, workers: readonly Worker[]): number {
  const ofRank = model.card.runtime_config.max_num_seqs ?? Number.POSITIVE_INFINITY;
  return workers.reduce((sum, { dataParallelSize }) => sum + ofRank * dataParallelSize, 0);
}
