import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { KvRouterConfig } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import type { RoutingMode, RoutingOptions } from '../../../shared/simulate/routers.ts';
import type { SimulationOptions } from '../../../shared/simulate/simulate.ts';
import { makeWorkload, type SyntheticOptions } from '../../../shared/simulate/synthetic.ts';
import { parseTrace } from '../../../shared/simulate/trace.ts';
import { toWorkload, type Workload, type WorkloadRequest } from '../../../shared/simulate/workload.ts';

/** The engine of the reference replays. */
export const REFERENCE_ENGINE: SimulationOptions['engine'] = {
  numGpuBlocks: 2048,
  blockSizeTokens: 512,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  enablePrefixCaching: true,
  enableChunkedPrefill: true,
  preemptionMode: 'lifo',
  speedupRatio: 1,
  decodeSpeedupRatio: 1,
};

export function routing(mode: RoutingMode, kv: Partial<KvRouterConfig> = {}): RoutingOptions {
  return {
    mode,
    routers: 1,
    replicaSyncDelayMs: 1,
    loadAgeMs: 1000,
    kv: kvRouterConfig({ queueThreshold: undefined, ...kv }),
  };
}

/** The same with blocks of made-up sessions. */
export const FINE_ENGINE = { ...REFERENCE_ENGINE, numGpuBlocks: 16_384, blockSizeTokens: 16 };

/** Conversations of which the most is shared with others, four a second. */
export const SHARED_SESSIONS: SyntheticOptions = {
  shape: 'sessions',
  sessions: 500,
  turnsPerSession: 5,
  interTurnDelayMs: 5000,
  arrivalIntervalMs: 250,
  burstSize: 1,
  inputTokens: 2048,
  outputTokens: 256,
  lengthSpread: 0.5,
  sharedPrefixRatio: 0.9,
  prefixGroups: 8,
  segmentTokens: 16,
  seed: 1,
};

/** Prompts of a system prompt of 208 tokens that all share, and `words` of their own. */
export function herd(requests: number, words: number, arrivalIntervalMs: number): Workload {
  return makeWorkload({
    ...SHARED_SESSIONS,
    shape: 'poisson',
    sessions: requests,
    turnsPerSession: 1,
    arrivalIntervalMs,
    inputTokens: 208 + words,
    lengthSpread: 0,
    sharedPrefixRatio: 208 / (208 + words),
    prefixGroups: 1,
  });
}

/** Routers of the cost model `stator`; those of mode `stateless` ask as they do unless told otherwise. */
export function routersOf(mode: RoutingMode, routers: number, askedWorkers = 4): RoutingOptions {
  const kv = kvRouterConfig({ costModel: 'stator' });
  return { ...routing(mode), kv, routers, asking: { workersMax: askedWorkers, delayMs: 0.5 } };
}

/** Options with everything that a case does not care about filled in. */
export function options(given: Partial<SimulationOptions> & { readonly workload: Workload }): SimulationOptions {
  return {
    workers: 1,
    dataParallelSize: 1,
    engine: REFERENCE_ENGINE,
    routing: routing('round-robin'),
    arrivalSpeedup: 1,
    kvEventLagMs: 0,
    seed: 1,
    ...given,
  };
}

/** A workload of prompts that share nothing, unless ids are given. Segments of 512 tokens. */
export function workloadOf(
  requests: readonly (Partial<WorkloadRequest> & { readonly inputTokens: number })[],
): Workload {
  let nextId = 1_000_000;
  const whole = requests.map(({ inputTokens, segmentIds, ...rest }): WorkloadRequest => {
    const count = Math.ceil(inputTokens / 512);
    const ids = segmentIds ?? Array.from({ length: count }, () => nextId++);
    return { arrivalMs: 0, outputTokens: 1, ...rest, inputTokens, segmentIds: ids };
  });
  return toWorkload(whole, 512);
}

/** The first 1,500 requests of a Mooncake trace. */
export function mooncake(name: 'conversation' | 'synthetic'): Workload {
  const file = new URL(`../../fixtures/simulate/mooncake-${name}-1500.jsonl.gz`, import.meta.url);
  return parseTrace(gunzipSync(readFileSync(file)).toString(), 512);
}
