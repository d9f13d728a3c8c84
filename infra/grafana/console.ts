import { type Dashboard, type Panel, quantile, rate } from './dashboard.ts';

/* Dashboards with the panels of the console's pages, for fleets that Prometheus watches. */

const FRONTEND = 'dynamo_frontend_';
const TTFT = `${FRONTEND}time_to_first_token_seconds`;
const ITL = `${FRONTEND}inter_token_latency_seconds`;
const OF_MODEL = '{model=~"$model"}';

const ofModel = (metric: string, more = ''): string => `${metric}{model=~"$model"${more}}`;
const sumOfRates = (metric: string, more = ''): string => `sum(${rate(ofModel(metric, more))})`;
const ratio = (part: string, whole: string): string => `${part} / ${whole}`;
/** Returns zero while the counter has no series: the one of a failure exists only from the first failure on. */
const orZero = (query: string): string => `(${query} or vector(0))`;

const stat = (title: string, unit: string, query: string): Panel => ({
  ...{ title, unit, type: 'stat', width: 4 },
  queries: { [title]: query },
});

const quantiles = (title: string, histogram: string): Panel => ({
  ...{ title, unit: 's' },
  queries: {
    p50: quantile(0.5, histogram, '', OF_MODEL),
    p95: quantile(0.95, histogram, '', OF_MODEL),
  },
});

const REQUESTS = `${FRONTEND}requests_total`;
const FAILED = orZero(sumOfRates(REQUESTS, ',status="error"'));
const WORKER_LABELS = 'worker_id, dp_rank, worker_type';

/** Dashboard of the console's page Fleet. */
export const FLEET: Dashboard = {
  uid: 'stator-fleet',
  title: 'Stator: fleet',
  variables: [{ name: 'model', label: 'Model', metric: `${FRONTEND}inflight_requests` }],
  panels: [
    stat('Running', 'short', `sum(${ofModel(`${FRONTEND}inflight_requests`)})`),
    stat('Requests', 'reqps', sumOfRates(REQUESTS)),
    stat('Output tokens a second', 'short', sumOfRates(`${FRONTEND}output_tokens_total`)),
    stat('Failed', 'percentunit', ratio(FAILED, sumOfRates(REQUESTS))),
    stat(
      'Prompt tokens that were cached',
      'percentunit',
      ratio(sumOfRates(`${FRONTEND}cached_tokens_sum`), sumOfRates(`${FRONTEND}input_sequence_tokens_sum`)),
    ),
    stat('TTFT, p95', 's', quantile(0.95, TTFT, '', OF_MODEL)),
    {
      ...{ title: 'Requests', unit: 'reqps', width: 8 },
      queries: { all: sumOfRates(REQUESTS), failed: FAILED },
    },
    {
      ...{ title: 'Output tokens', unit: 'short', width: 8 },
      queries: { '{{model}}': `sum by (model) (${rate(ofModel(`${FRONTEND}output_tokens_total`))})` },
    },
    {
      ...{ title: 'Workers', unit: 'short', width: 8 },
      queries: {
        'with a load': `count(count by (worker_id) (${FRONTEND}worker_active_decode_blocks))`,
        'stalled, {{model}}': `max by (model) (${ofModel('stator_frontend_stalled_workers')})`,
      },
    },
    quantiles('Time to the first token', TTFT),
    quantiles('Time between tokens', ITL),
    {
      ...{ title: 'KV blocks in use, by worker', unit: 'short' },
      queries: {
        '{{worker_id}} rank {{dp_rank}} {{worker_type}}': `max by (${WORKER_LABELS}) (${FRONTEND}worker_active_decode_blocks)`,
      },
    },
    {
      ...{ title: 'Prompt tokens to compute, by worker', unit: 'short' },
      queries: {
        '{{worker_id}} rank {{dp_rank}} {{worker_type}}': `max by (${WORKER_LABELS}) (${FRONTEND}worker_active_prefill_tokens)`,
      },
    },
    {
      ...{ title: 'Requests that wait for a worker', unit: 'short' },
      queries: { '{{model}}': `sum by (model) (${ofModel('stator_held_requests')})` },
    },
    {
      ...{ title: 'Requests that moved to another worker', unit: 'reqps' },
      queries: {
        '{{model}} {{migration_type}}': `sum by (model, migration_type) (${rate(ofModel(`${FRONTEND}model_migration_total`))})`,
      },
    },
  ],
};

const PLANNER = 'dynamo_planner_';
const byPlanner = (metric: string): string => `max by (instance) (${metric})`;

/** Dashboard of the console's page Planner. */
export const PLANNED: Dashboard = {
  uid: 'stator-planner',
  title: 'Stator: planner',
  variables: [{ name: 'model', label: 'Model', metric: 'stator_planner_target_replicas' }],
  panels: [
    {
      ...{ title: 'Demand', unit: 'reqps' },
      queries: {
        'seen at {{instance}}': byPlanner(`${PLANNER}observed_requests_per_second`),
        'expected at {{instance}}': byPlanner(`${PLANNER}predicted_requests_per_second`),
      },
    },
    {
      ...{ title: 'Target, and workers by state', unit: 'short' },
      queries: {
        '{{model}} {{pool}} target': `sum by (model, pool) (${ofModel('stator_planner_target_replicas')})`,
        '{{model}} {{pool}} {{state}}': `sum by (model, pool, state) (${ofModel('stator_planner_replicas')})`,
      },
    },
    {
      ...{ title: 'Need: workers that the law wants', unit: 'short' },
      queries: {
        'prefill at {{instance}}': byPlanner(`${PLANNER}predicted_num_prefill_replicas`),
        'decode at {{instance}}': byPlanner(`${PLANNER}predicted_num_decode_replicas`),
      },
    },
    {
      ...{ title: 'Requests that wait for a worker', unit: 'short' },
      queries: { '{{instance}}': byPlanner('stator_planner_held_requests') },
    },
    {
      ...{ title: 'TTFT: seen, expected and wanted', unit: 'ms' },
      queries: {
        'seen at {{instance}}': byPlanner(`${PLANNER}observed_ttft_ms`),
        'expected at {{instance}}': byPlanner(`${PLANNER}estimated_ttft_ms`),
        'target at {{instance}}': byPlanner(`${PLANNER}sla_target_ttft_ms`),
      },
    },
    {
      ...{ title: 'ITL: seen, expected and wanted', unit: 'ms' },
      queries: {
        'seen at {{instance}}': byPlanner(`${PLANNER}observed_itl_ms`),
        'expected at {{instance}}': byPlanner(`${PLANNER}estimated_itl_ms`),
        'target at {{instance}}': byPlanner(`${PLANNER}sla_target_itl_ms`),
      },
    },
    {
      ...{ title: 'Decisions in ten minutes, and those not carried out', unit: 'short' },
      queries: {
        decisions: 'sum(increase(stator_planner_decisions_total[10m]))',
        '{{status}}': 'sum by (status) (increase(stator_planner_unapplied_decisions_total[10m]))',
      },
    },
    {
      ...{ title: 'Time until the fleet matches a decision', unit: 's' },
      queries: { p95: quantile(0.95, 'stator_planner_decision_applied_seconds', '') },
    },
    {
      ...{ title: 'Planners that miss capacity', unit: 'short' },
      queries: { '{{instance}}': byPlanner('stator_planner_stalled') },
    },
    {
      ...{ title: 'Time from the order of a machine until it exists, p90', unit: 's' },
      queries: { '{{instance}}': byPlanner('stator_planner_capacity_seconds') },
    },
  ],
};
