/**
 * @module simulate/report
 * What a user reads of simulations: text for a terminal, JSON, and a page with charts that needs nothing else.
 */
export { renderHtml } from './render-html.ts';
export { renderJson } from './render-json.ts';
export { renderText } from './render-text.ts';
export { labelOf, type RunReport, reportRun } from './run-report.ts';
