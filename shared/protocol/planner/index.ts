/**
 * @module protocol/planner
 * What workers, edges and the cloud tell a planner, and what it says: versioned events, checked where they come in.
 */
export {
  type EngineFacts,
  FOLDED_RANKS_MAX,
  type FoldedPool,
  HELD_TOPIC,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PassRow,
  PLANNER_EVENT_VERSION,
  type PlannerEvent,
  type PlannerEventOf,
  type PlannerSignal,
  type PoolName,
  type RankLoadRow,
  RETRY_HEADER,
  ROLLUP_TOPIC,
  type TrafficTotals,
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
