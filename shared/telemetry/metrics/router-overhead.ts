import type { MetricRegistry } from './registry.ts';
import type { RouterIdentity } from './router-labels.ts';

const HASHING_MS = Array.from({ length: 15 }, (_, step) => 0.001 * 2 ** step);
const STAGES_MS = Array.from({ length: 17 }, (_, step) => 0.01 * 3 ** step);

/** Counts the time that decisions take. */
export function createRouterOverhead(registry: MetricRegistry, { routerId }: RouterIdentity) {
  const { histogram } = registry.under('dynamo_router_overhead_', { router_id: routerId });
  const overhead = (stage: string, help: string, bounds: readonly number[]) =>
    histogram(`${stage}_ms`, help, bounds).with();
  const blockHashing = overhead('block_hashing', 'Milliseconds to name the blocks of a prompt.', HASHING_MS);
  const seqHashing = overhead(
    'seq_hashing',
    'Milliseconds to chain those names; part of block_hashing here.',
    HASHING_MS,
  );
  const findMatches = overhead('indexer_find_matches', 'Milliseconds to look a prompt up in the index.', STAGES_MS);
  const scheduling = overhead('scheduling', 'Milliseconds from there to the decision, without waiting.', STAGES_MS);
  const total = overhead('total', 'Milliseconds of all of it.', STAGES_MS);
  // There is no shared cache: both stay at zero.
  overhead('shared_cache_query', 'Milliseconds to ask the shared cache.', STAGES_MS);
  registry
    .under('dynamo_router_', { router_id: routerId })
    .counter('shared_cache_errors_total', 'Questions that the shared cache did not answer.');
  let hashedMs = 0; // of the request that is being decided: hashing and decision happen in one turn
  return {
    hashed(ms: number): void {
      hashedMs = ms;
      blockHashing.observe(ms);
      seqHashing.observe(0);
    },
    decided(matchMs: number, schedulingMs: number): void {
      findMatches.observe(matchMs);
      scheduling.observe(schedulingMs);
      total.observe(hashedMs + matchMs + schedulingMs);
      hashedMs = 0;
    },
  };
}
