/**
 * @module simulate
 * A fleet in virtual time: requests of a trace or a made-up workload go through the product's own routers to the mock
 * engine's own scheduler. Nothing waits, so an hour of traffic takes a second; the same options give the same result.
 * With it, what `stator simulate` replays as its settings say, and what its user reads: text, JSON, a page with charts.
 */
export {
  describeRun,
  simulatedFleet,
  simulationOptions,
  WorkloadSource,
  withExtraEngineArgs,
} from './command/options.ts';
export { scalingOf } from './command/scaling.ts';
export { type SweptRun, sweepRuns } from './command/sweep.ts';
export { renderPage } from './report/page.ts';
export { renderHtml } from './report/render-html.ts';
export { renderText } from './report/render-text.ts';
export { labelOf, type RunReport, renderJson, reportRun } from './report/run-report.ts';
export { escapeMarkup, type Line, lineChart } from './report/svg.ts';
export { profilePasses } from './scaling/policies.ts';
export { simulate } from './simulate.ts';
