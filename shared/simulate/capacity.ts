import { passMs, type SchedulerOptions } from '../engines/index.ts';
import { hitCeiling } from './hit-ceiling.ts';
import { speedOf } from './routers.ts';
import type { SimulationOptions } from './simulate.ts';
import type { Workload } from './workload.ts';

type SimulatedFleet = Pick<
  SimulationOptions,
  'workers' | 'dataParallelSize' | 'engine' | 'prefill' | 'cpus' | 'workerSpeeds'
>;

/** Mean request of a workload, in tokens. */
interface MeanRequest {
  readonly promptTokens: number;
  /** Prompt tokens that one cache as large as all caches together would not have. */
  readonly uncachedTokens: number;
  readonly outputTokens: number;
}

/**
 * Returns the capacity of a fleet for a workload, in requests a second: the rate at which every rank would compute all
 * the time. Passes and batches are full, and prompts hit as in one cache as large as all caches together.
 *
 *     capacity of a rank = 1 / (uncached tokens * time of a full prefill pass / tokens of the pass
 *                               + output tokens * time of a full decode step / requests of the step)
 *
 * No router reaches it for long, because caches that hold the same prefix twice hold less. With two pools it is the
 * capacity of the smaller one.
 */
export function capacityOf(workload: Workload, fleet: SimulatedFleet): number {
  const { prefill, engine, workers, dataParallelSize } = fleet;
  const cached = prefill ?? fleet; // whose caches prompts are looked up in
  const blocks = cached.workers * cached.dataParallelSize * cached.engine.numGpuBlocks;
  const hits = cached.engine.enablePrefixCaching ? hitCeiling(workload, blocks, cached.engine.blockSizeTokens) : 0;
  const promptTokens = meanOf(workload.inputTokens);
  const outputTokens = meanOf(workload.outputTokens);
  const mean = { promptTokens, uncachedTokens: promptTokens * (1 - hits), outputTokens };
  const ranks = speedSum(workers, fleet) * dataParallelSize;
  if (prefill === undefined) return (1000 * ranks) / (prefillMsOf(mean, engine) + decodeMsOf(mean, engine));
  const prefillRanks = speedSum(prefill.workers, { workerSpeeds: fleet.workerSpeeds }) * prefill.dataParallelSize;
  return Math.min(
    (1000 * prefillRanks) / prefillMsOf(mean, prefill.engine),
    (1000 * ranks) / decodeMsOf({ ...mean, uncachedTokens: promptTokens }, engine),
  );
}

/** Returns the mean rate of a workload before any speed-up, in requests a second; infinity if all arrive at once. */
export function rateOf({ arrivalMs, size }: Workload): number {
  let lastMs = 0;
  for (const atMs of arrivalMs) lastMs = Math.max(lastMs, atMs);
  return (1000 * size) / lastMs;
}

/** Returns the sum of the speeds of a pool's workers. */
function speedSum(
  workers: number,
  { workerSpeeds: speeds, cpus }: Pick<SimulatedFleet, 'workerSpeeds' | 'cpus'>,
): number {
  let sum = 0;
  for (let worker = 0; worker < workers; worker++) sum += speedOf(worker, { speeds, cpus });
  return sum;
}

function prefillMsOf({ uncachedTokens }: MeanRequest, engine: SchedulerOptions): number {
  const tokens = engine.maxNumBatchedTokens;
  const work = { prefills: 1, prefillStart: 0, prefillEnd: tokens, decodes: 0, decodeContext: 0 };
  return (uncachedTokens / tokens) * passMs(work, capacityTokens(engine), engine);
}

/** The first token comes from the prefill. Half of the answer is there on average. */
function decodeMsOf({ promptTokens, uncachedTokens, outputTokens }: MeanRequest, engine: SchedulerOptions): number {
  const heldTokens = uncachedTokens + outputTokens / 2;
  const fitting = Math.floor(capacityTokens(engine) / Math.max(1, heldTokens));
  const decodes = Math.max(1, Math.min(engine.maxNumSeqs, fitting));
  const decodeContext = Math.round(decodes * (promptTokens + outputTokens / 2));
  const work = { prefills: 0, prefillStart: 0, prefillEnd: 0, decodes, decodeContext };
  return ((outputTokens - 1) * passMs(work, capacityTokens(engine), engine)) / decodes;
}

function capacityTokens({ numGpuBlocks, blockSizeTokens }: SchedulerOptions): number {
  return numGpuBlocks * blockSizeTokens;
}

function meanOf(values: Uint32Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / Math.max(1, values.length);
}
