/**
 * @module routing
 * The assembly of routing: the router that the settings name, and the feeds that keep it informed. Frontends, the
 * standalone services and the simulator assemble the same parts here. Clock and chance come in as values.
 */
export { openFeeds, type Routing } from './feeds.ts';
export type { RouterFiles } from './router-files.ts';
export { openRouterFiles, openRouterMetrics, openRouting } from './routing.ts';
