/**
 * @module planner
 * How many workers a pool is to have. Pure: a planner is told what there is and what was seen, and says what is wanted and
 * why; hosts keep its state and act. The laws of Dynamo's planner (`throughput`, `latency`, `load`, `sla`) decide as it does;
 * `rate`, the default, is this product's own.
 */

export {
  type PlannerConfig,
  PlannerConfigError,
  type PlannerLaw,
  type PlannerMode,
  parsePlannerConfig,
} from './config.ts';
export type { ForwardPass } from './forward-pass/metrics.ts';
export type { RateDecision, RateInput } from './laws/rate.ts';
export { type LoopOutcome, type LoopState, learnPasses, startLoops, tickLoops, warmUp } from './loops.ts';
export {
  type Planner,
  type PlannerEffect,
  type PlannerInput,
  type PlannerState,
  startPlanner,
  teach,
  tick,
} from './planner.ts';
export type {
  EngineCapabilities,
  PerPool,
  Pool,
  PoolCounts,
  Targets,
  TickInput,
  TrafficWindow,
} from './types.ts';
