/**
 * Constants for processes that report to a planner. The schemas of the events are in a file of their own, because they
 * would slow every start.
 */

/** Version of every event here. Other versions are refused, because their meaning is unknown. */
export const PLANNER_EVENT_VERSION = 1;

/** Topic of the roll-ups of workers and of requests that wait, each on the event plane of a namespace. */
export const ROLLUP_TOPIC = 'planner_rollups';
export const HELD_TOPIC = 'request_held';

/** Header of a request that was at another worker before, so that it does not begin here. */
export const RETRY_HEADER = 'x-stator-retry';

/** Samples of passes that one roll-up carries for a rank. */
export const PASS_SAMPLES_MAX = 16;
/** Ranks of engines that one aggregated message names; its sums include all others. */
export const AGGREGATED_RANKS_MAX = 1024;

/** Phases of the start of a machine in their order. */
export const START_PHASES = ['boot', 'image', 'weights', 'engine', 'compile', 'register'] as const;

export type StartPhase = (typeof START_PHASES)[number];

/** Every total at its beginning. */
export const NO_TRAFFIC = {
  started: 0,
  completed: 0,
  ttft_sum_s: 0,
  ttft_count: 0,
  itl_sum_s: 0,
  itl_count: 0,
  isl_sum: 0,
  isl_count: 0,
  osl_sum: 0,
  osl_count: 0,
  dur_sum_s: 0,
  dur_count: 0,
  kv_hit_sum: 0,
  kv_hit_count: 0,
};
