/**
 * @module simulate/report
 * What a user reads of simulations: text for a terminal, JSON, and a page with charts that needs nothing else.
 */
export { renderHtml } from './render-html.ts';
export { renderText } from './render-text.ts';
export { labelOf, type RunReport, renderJson, reportRun } from './run-report.ts';
