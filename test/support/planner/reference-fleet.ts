import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { resolveConfig } from '../../../shared/config/index.ts';
import { engineModel, type SchedulerOptions } from '../../../shared/engines/index.ts';
import { kvRouterConfigOf } from '../../../shared/scheduler/index.ts';
import type { RoutingOptions } from '../../../shared/simulate/routers.ts';
import { parseTrace } from '../../../shared/simulate/trace.ts';
import type { Workload } from '../../../shared/simulate/workload.ts';

/** Flags for the engine and router of the reference runs, which bind a request to a worker on arrival. */
const FLAGS = ['--trace=package.json', '--mode=kv', '--num-gpu-blocks=4096', '--block-size=64', '--cost-model=dynamo'];
const { settings } = resolveConfig('simulate', [...FLAGS, '--router-queue-threshold=None'], {});

export function engineOf(): SchedulerOptions {
  return { numGpuBlocks: settings.numGpuBlocks, ...engineModel(settings) };
}

/**
 * Returns routing options without the caches' events. No two prompts share anything, so the router decides exactly the
 * same without them in half the time.
 *
 * @param mode @default 'load-aware'
 */
export function routingOf(mode: RoutingOptions['mode'] = 'load-aware'): RoutingOptions {
  const kv = kvRouterConfigOf({ ...settings, routerCostModel: settings.costModel }, undefined);
  return { mode, routers: 1, replicaSyncDelayMs: 1, loadAgeMs: 1000, kv };
}

/** Reads one of the reference workloads. */
export function readWorkload(name: 'step' | 'diurnal' | 'burst'): Workload {
  const path = `test/fixtures/planner/workloads/${name}.jsonl.gz`;
  return parseTrace(gunzipSync(readFileSync(path)).toString(), 512);
}
