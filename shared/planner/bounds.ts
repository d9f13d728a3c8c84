import { parsePlannerConfig } from './config.ts';
import { endpointsMinOf, gpusOfEngine, poolsOf } from './laws/load-loop.ts';
import type { Planner } from './planner.ts';

/** What may change while a planner runs; what is left out stays. */
export interface PlannerBounds {
  readonly min_endpoint?: number;
  readonly prefill_min_endpoint?: number;
  readonly decode_min_endpoint?: number;
  readonly min_gpu_budget?: number;
  readonly max_gpu_budget?: number;
}

/** The same planner within other bounds. @throws Error, PlannerConfigError for bounds that contradict each other */
export function withBounds({ config: before, engines }: Planner, bounds: PlannerBounds): Planner {
  const config = parsePlannerConfig({ ...before, ...bounds });
  const { max_gpu_budget: gpusMax } = config;
  const gpus = poolsOf(config).reduce(
    (total, pool) => total + endpointsMinOf(pool, config) * gpusOfEngine(pool, engines, config),
    0,
  );
  if (gpusMax >= 0 && gpus > gpusMax) {
    throw new Error(`minimum endpoint footprint requires ${gpus} GPUs, exceeding max_gpu_budget=${gpusMax}`);
  }
  return { config, engines };
}
