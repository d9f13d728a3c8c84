/**
 * @module simulate
 * Simulates a fleet in virtual time: requests of a trace or a synthetic workload go through the product's own routers
 * to the mock engine's own scheduler. Nothing waits, so an hour of traffic takes a second; the same options give the
 * same result. The room also reads the settings of `stator simulate`, and renders reports as text, JSON and a page with
 * charts.
 */

export { withInitialWorkers } from './command/ec2.ts';
export {
  simulatedFleet,
  simulationOptions,
  WorkloadSource,
  withExtraEngineArgs,
} from './command/options.ts';
export { RunSources, runSeeds } from './command/run.ts';
export { sweepRuns } from './command/sweep.ts';
export { tuneRun } from './command/tune.ts';
export type { EndedSample } from './report/fleet/bins.ts';
export { type FleetStory, type GpuPrices, optionsOf, priceOf } from './report/fleet/fleet-story.ts';
export { renderFleet } from './report/fleet/render-fleet.ts';
export { renderPage } from './report/page.ts';
export { renderHtml } from './report/render-html.ts';
export { renderText } from './report/render-text.ts';
export { labelOf, type RunReport, renderJson, reportRun } from './report/run-report.ts';
export { escapeMarkup, type Line, lineChart } from './report/svg.ts';
export { profilePasses } from './scaling/policies.ts';
export { simulate, simulatePlanned } from './simulate.ts';
export { renderTuneJson, renderTuneText } from './tune/render-tune.ts';
