import { passMs, type SchedulerOptions } from '../engines/index.ts';
import { hitCeiling } from './hit-ceiling.ts';
import { type PoolOptions, speedOf } from './routers.ts';
import { SharedTokens } from './shared-tokens.ts';
import type { SimulationOptions } from './simulate.ts';
import type { Workload } from './workload.ts';

type SimulatedFleet = Pick<
  SimulationOptions,
  'workers' | 'dataParallelSize' | 'engine' | 'prefill' | 'cpus' | 'workerSpeeds'
>;

/** A pool of ranks whose speeds add up to `speedSum`. */
interface Ranks {
  readonly engine: SchedulerOptions;
  readonly count: number;
  readonly speedSum: number;
}

/** Mean request of a workload, in tokens. */
interface MeanRequest {
  /** Prompt tokens that one cache as large as all caches together would not have. */
  readonly uncachedTokens: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/**
 * Returns the capacity of a fleet for a workload, in requests a second: the rate at which no rank is ever idle and no
 * batch has room. Each rank then has the same pass again and again, with `n` requests:
 *
 *     n = what fits into the cache with the prompts that they share, at most the engine's limit of requests,
 *         and as many as get their prompts from the pass's budget of tokens
 *     a pass = prefill of n * uncached tokens / output tokens, and one decode step of n requests
 *     capacity of a rank = n / (output tokens * time of the pass)
 *
 * Prompts hit as in one cache as large as all caches together, so a fleet that holds prefixes twice answers less. With
 * two pools it is the capacity of the smaller one.
 */
export function capacityOf(workload: Workload, fleet: SimulatedFleet): number {
  const { prefill, engine, workers, dataParallelSize, workerSpeeds: speeds, cpus } = fleet;
  const cached = prefill ?? fleet; // whose caches prompts are looked up in
  const blocks = cached.workers * cached.dataParallelSize * cached.engine.numGpuBlocks;
  const hits = cached.engine.enablePrefixCaching ? hitCeiling(workload, blocks, cached.engine.blockSizeTokens) : 0;
  const promptTokens = meanOf(workload.inputTokens);
  const mean = {
    promptTokens,
    uncachedTokens: promptTokens * (1 - hits),
    outputTokens: meanOf(workload.outputTokens),
  };
  const ranks = ranksOf(workers, dataParallelSize, engine, { speeds, cpus });
  const fitting = fittingRequests(new SharedTokens(workload), mean, ranks);
  if (prefill === undefined) return rateAt(Math.min(fitting, prefillingRequests(mean, engine)), mean, ranks);
  const prefillRanks = ranksOf(prefill.workers, prefill.dataParallelSize, prefill.engine, { speeds });
  const prompts = { ...mean, outputTokens: 1 }; // a prefill worker makes one token
  return Math.min(
    rateAt(prefillingRequests(prompts, prefill.engine), prompts, prefillRanks),
    rateAt(fitting, { ...mean, uncachedTokens: 0 }, ranks),
  );
}

/** Returns the mean rate of a workload before any speed-up, in requests a second; infinity if all arrive at once. */
export function rateOf({ arrivalMs, size }: Workload): number {
  let lastMs = 0;
  for (const atMs of arrivalMs) lastMs = Math.max(lastMs, atMs);
  return (1000 * size) / lastMs;
}

function ranksOf(
  workers: number,
  dataParallelSize: number,
  engine: SchedulerOptions,
  speeds: Pick<PoolOptions, 'speeds' | 'cpus'>,
): Ranks {
  let speedSum = 0;
  for (let worker = 0; worker < workers; worker++) speedSum += dataParallelSize * speedOf(worker, speeds);
  return { engine, count: workers * dataParallelSize, speedSum };
}

/** Returns the most requests that run on a rank at once: with half of their answers, they fill its cache. */
function fittingRequests(shared: SharedTokens, { outputTokens }: MeanRequest, { engine, count }: Ranks): number {
  const capacity = engine.numGpuBlocks * engine.blockSizeTokens;
  const heldTokens = (requests: number): number =>
    shared.distinctOf(requests * count) / count + requests * (shared.ownTokens + outputTokens / 2);
  let fitting = 1;
  let beyond = engine.maxNumSeqs + 1;
  while (beyond - fitting > 1) {
    const middle = (fitting + beyond) >> 1;
    if (heldTokens(middle) <= capacity) fitting = middle;
    else beyond = middle;
  }
  return fitting;
}

/** Returns as many running requests as get their prompts from full passes; less than 1 if a prompt needs several. */
function prefillingRequests({ uncachedTokens, outputTokens }: MeanRequest, engine: SchedulerOptions): number {
  return (engine.maxNumBatchedTokens * outputTokens) / Math.max(1, uncachedTokens);
}

/** Returns the rate of a pool with `requests` on each rank. */
function rateAt(requests: number, mean: MeanRequest, { engine, speedSum }: Ranks): number {
  const { uncachedTokens, promptTokens, outputTokens } = mean;
  const prefillTokens = Math.round((requests * uncachedTokens) / outputTokens);
  const decodes = (requests * (outputTokens - 1)) / outputTokens; // the first token comes from the prefill
  const work = {
    prefills: prefillTokens > 0 ? 1 : 0,
    prefillStart: 0,
    prefillEnd: prefillTokens,
    decodes,
    decodeContext: decodes * (promptTokens + outputTokens / 2),
  };
  const durationMs = passMs(work, engine.numGpuBlocks * engine.blockSizeTokens, engine);
  return (1000 * speedSum * requests) / (outputTokens * durationMs);
}

function meanOf(values: Uint32Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / Math.max(1, values.length);
}
