/**
 * @module fleet/state
 * What the routers of a fleet share: the router-state table, leases, logs of events with their snapshots.
 */
export { openRouterState, type PartWatch, SharedRouterState } from './router-state.ts';
