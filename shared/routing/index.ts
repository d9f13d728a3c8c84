/**
 * @module routing
 * The assembly of routing: which router the settings ask for, with what keeps it informed. Frontends, the standalone services
 * and the simulator put the same parts together here; clock and chance come in as values.
 */
export { openFeeds, type Routing } from './feeds.ts';
export type { RouterFiles } from './router-files.ts';
export { openRouterFiles, openRouterMetrics, openRouting } from './routing.ts';
