/**
 * @module simulate/command
 * What `stator simulate` replays, as its settings say: fleet, workload, sweep.
 */
export { simulatedFleet, withExtraEngineArgs } from './fleet.ts';
export { describeRun, simulationOptions } from './options.ts';
export { type SweptRun, sweepRuns } from './sweep.ts';
export { WorkloadSource } from './workload.ts';
