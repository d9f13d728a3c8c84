/**
 * @module router/observe
 * What operators see of the router: metrics of its decisions and of what becomes of them.
 */
export { type MeteredRouterOptions, meterRouter } from './metered-router.ts';
export { schedulerMetrics } from './scheduler-metrics.ts';
