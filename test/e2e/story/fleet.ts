import type { FleetSpec } from '../../../shared/planner/index.ts';
import { MODEL } from '../../support/lambda/function-bed.ts';

export const NAMESPACE = 'dynamo';
export const GROUP = `${NAMESPACE}#${MODEL}`;
const TYPE = 'g6e.xlarge';
/** Requests that a worker serves in a second: two workers serve eight times the quiet load, with room to both sides. */
const WORKER_SERVES = 1.6;
/** Requests in a second before the rise. */
export const QUIET = 0.25;

/** Group of each option, in their order. */
export const OPTIONS = { '0-on-demand': 'chat-0-on-demand', '1-spot': 'chat-1-spot' } as const;
export type Option = keyof typeof OPTIONS;

/** A fleet with two ways to get machines, with seconds in place of minutes. */
export const FLEET: FleetSpec = {
  namespace: NAMESPACE,
  model: MODEL,
  pools: {
    decode: {
      gpusPerReplica: 1,
      startSecs: 3,
      drainSecs: 30,
      options: (Object.keys(OPTIONS) as Option[]).map((id) => ({
        id,
        group: OPTIONS[id],
        types: [TYPE],
        market: id === '1-spot' ? 'spot' : 'on-demand',
        gpusPerInstance: 1,
        replicasPerInstance: 1,
        min: 0,
        max: 4,
      })),
    },
  },
  planner: {
    rate_requests_per_second: WORKER_SERVES,
    rate_window_seconds: 5,
    rate_deviations: 0,
    rate_down_window_seconds: 10,
    rate_surge_worth: 0,
    load_adjustment_interval_seconds: 2,
    min_endpoint: 0,
    max_gpu_budget: 3,
    idle_to_zero_seconds: 3,
    min_instance_seconds: 0,
  },
};
