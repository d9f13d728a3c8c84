import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type KvRouterConfig, kvRouterConfig } from '../../../shared/router/scheduler/index.ts';
import {
  parseTrace,
  type RoutingMode,
  type RoutingOptions,
  type SimulationOptions,
  toWorkload,
  type Workload,
  type WorkloadRequest,
} from '../../../shared/simulate/index.ts';

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

/** A workload of prompts that share nothing, unless ids are given. Stretches of 512 tokens. */
export function workloadOf(
  requests: readonly (Partial<WorkloadRequest> & { readonly inputTokens: number })[],
): Workload {
  let nextId = 1_000_000;
  const whole = requests.map(({ inputTokens, stretchIds, ...rest }): WorkloadRequest => {
    const count = Math.ceil(inputTokens / 512);
    const ids = stretchIds ?? Array.from({ length: count }, () => nextId++);
    return { arrivalMs: 0, outputTokens: 1, ...rest, inputTokens, stretchIds: ids };
  });
  return toWorkload(whole, 512);
}

/** The first 1,500 requests of a Mooncake trace. */
export function mooncake(name: 'conversation' | 'synthetic'): Workload {
  const file = new URL(`../../fixtures/simulate/mooncake-${name}-1500.jsonl.gz`, import.meta.url);
  return parseTrace(gunzipSync(readFileSync(file)).toString(), 512);
}
