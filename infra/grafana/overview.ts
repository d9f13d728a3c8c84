import { type Dashboard, metricsOf, type Panel, quantile, rate, renderDashboard } from './dashboard.ts';

const latency = (title: string, metric: string): Panel => ({
  title,
  unit: 's',
  queries: { '{{model}} p50': quantile(0.5, metric, 'model'), '{{model}} p95': quantile(0.95, metric, 'model') },
});

/** Panels in reading order: what clients see first, then the causes. */
const PANELS: readonly Panel[] = [
  {
    title: 'Requests',
    unit: 'reqps',
    queries: { '{{model}} {{status}}': `sum by (model, status) (${rate('dynamo_frontend_requests_total')})` },
  },
  {
    title: 'Failed requests',
    unit: 'reqps',
    queries: {
      '{{model}} {{error_type}}': `sum by (model, error_type) (${rate('dynamo_frontend_requests_total{status="error"}')})`,
    },
  },
  latency('Time to first token', 'dynamo_frontend_time_to_first_token_seconds'),
  latency('Time between tokens', 'dynamo_frontend_inter_token_latency_seconds'),
  {
    title: 'Output tokens',
    unit: 'short',
    queries: { '{{model}}': `sum by (model) (${rate('dynamo_frontend_output_tokens_total')})` },
  },
  {
    title: 'Requests in flight, and those of them without a first token',
    unit: 'short',
    queries: {
      '{{model}} in flight': 'sum by (model) (dynamo_frontend_inflight_requests)',
      '{{model}} without a first token': 'sum by (model) (dynamo_frontend_queued_requests)',
    },
  },
  {
    title: 'Share of prompt blocks that the chosen worker has cached',
    unit: 'percentunit',
    queries: {
      share: `sum(${rate('dynamo_component_router_kv_hit_rate_sum')}) / sum(${rate('dynamo_component_router_kv_hit_rate_count')})`,
    },
  },
  {
    title: 'Requests that moved to another worker',
    unit: 'reqps',
    queries: { '{{model}}': `sum by (model) (${rate('dynamo_frontend_model_migration_total')})` },
  },
  {
    title: 'Stalled workers',
    unit: 'short',
    queries: { '{{model}}': 'max by (model) (stator_frontend_stalled_workers)' },
  },
  {
    title: 'Requests that wait for a worker',
    unit: 'short',
    queries: { '{{model}}': 'sum by (model) (stator_held_requests)' },
  },
  {
    title: 'Time that held requests waited',
    unit: 's',
    queries: {
      '{{model}} p95': quantile(0.95, 'stator_frontend_hold_seconds', 'model'),
    },
  },
  {
    title: 'Workers that planners want, and those there are',
    unit: 'short',
    queries: {
      '{{model}} {{pool}} wanted': 'sum by (model, pool) (stator_planner_target_replicas)',
      '{{model}} {{pool}} {{state}}': 'sum by (model, pool, state) (stator_planner_replicas)',
    },
  },
  {
    title: 'Planners that miss capacity, and decisions that were not carried out in an hour',
    unit: 'short',
    queries: {
      'without capacity': 'sum(stator_planner_stalled)',
      '{{status}}': 'sum by (status) (increase(stator_planner_unapplied_decisions_total[1h]))',
    },
  },
  {
    title: 'Delay of the event loop of frontends',
    unit: 's',
    queries: {
      '{{pod}} p99': quantile(0.99, 'dynamo_frontend_event_loop_delay_seconds', 'pod'),
    },
  },
];

const OVERVIEW: Dashboard = { uid: 'stator', title: 'Stator', variables: [], panels: PANELS };

/** Returns the dashboard of a fleet as Grafana imports it. The reader chooses the Prometheus server. */
export function renderGrafanaDashboard(): string {
  return renderDashboard(OVERVIEW);
}

/** Names of the metrics that the dashboard shows, without the endings of histograms. */
export function dashboardMetrics(): readonly string[] {
  return metricsOf(OVERVIEW);
}
