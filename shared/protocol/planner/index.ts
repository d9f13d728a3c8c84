/**
 * @module protocol/planner
 * What workers, edges and the cloud tell a planner, and what it says: versioned events, checked where they come in.
 */
export type {
  EngineFacts,
  FoldedPool,
  PassRow,
  PlannerEvent,
  PlannerEventOf,
  PlannerSignal,
  PoolName,
  RankLoadRow,
  TrafficTotals,
} from './events.ts';
export {
  deduplicationIdOf,
  groupOf,
  PLANNER_EVENT_BYTES_MAX,
  type ReadEvent,
  readPlannerEvent,
  readPlannerText,
  sourceOf,
} from './read-event.ts';
