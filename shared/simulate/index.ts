/**
 * @module simulate
 * A fleet in virtual time: requests of a trace or a made-up workload go through the product's own routers to the mock
 * engine's own scheduler. Nothing waits, so an hour of traffic takes a second; the same options give the same result.
 */
export type { Spread } from './percentiles.ts';
export type { RoutingMode, RoutingOptions } from './routers.ts';
export { type Simulation, type SimulationOptions, simulate } from './simulate.ts';
export { type Summary, summarize } from './summary.ts';
export { makeWorkload, type SyntheticOptions, type WorkloadShape } from './synthetic.ts';
export { parseTrace, TraceError } from './trace.ts';
export { toWorkload, type Workload, type WorkloadRequest } from './workload.ts';
