interface Panel {
  readonly title: string;
  /** Unit of Grafana, such as `s` or `reqps`. */
  readonly unit: string;
  /** Queries of Prometheus, by the legend of their series. */
  readonly queries: Readonly<Record<string, string>>;
}

const rate = (metric: string): string => `rate(${metric}[$__rate_interval])`;
const quantile = (share: number, metric: string): string =>
  `histogram_quantile(${share}, sum by (le, model) (${rate(`dynamo_frontend_${metric}_bucket`)}))`;
const latency = (title: string, metric: string): Panel => ({
  title,
  unit: 's',
  queries: { '{{model}} p50': quantile(0.5, metric), '{{model}} p95': quantile(0.95, metric) },
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
  latency('Time to first token', 'time_to_first_token_seconds'),
  latency('Time between tokens', 'inter_token_latency_seconds'),
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
      '{{model}} p95': `histogram_quantile(0.95, sum by (le, model) (${rate('stator_frontend_hold_seconds_bucket')}))`,
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
      '{{pod}} p99': `histogram_quantile(0.99, sum by (le, pod) (${rate('dynamo_frontend_event_loop_delay_seconds_bucket')}))`,
    },
  },
];

const DATASOURCE = { type: 'prometheus', uid: '$datasource' };
const WIDTH = 12;
const HEIGHT = 8;

/** Returns the dashboard of a fleet as Grafana imports it. The reader chooses the Prometheus server. */
export function renderGrafanaDashboard(): string {
  const panels = PANELS.map(({ title, unit, queries }, at) => ({
    id: at + 1,
    type: 'timeseries',
    title,
    datasource: DATASOURCE,
    gridPos: { x: (at % 2) * WIDTH, y: Math.floor(at / 2) * HEIGHT, w: WIDTH, h: HEIGHT },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: Object.entries(queries).map(([legendFormat, expr], query) => ({
      refId: String.fromCharCode(65 + query),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  }));
  const datasource = { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' };
  const dashboard = {
    uid: 'stator',
    title: 'Stator',
    schemaVersion: 39,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: [datasource] },
    panels,
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

/** Names of the metrics that the dashboard shows, without the endings of histograms. */
export function dashboardMetrics(): readonly string[] {
  const names = PANELS.flatMap(
    ({ queries }) =>
      Object.values(queries)
        .join(' ')
        .match(/\b(dynamo|stator)_\w+/g) ?? [],
  );
  return [...new Set(names.map((name) => name.replace(/_(bucket|sum|count)$/, '')))].sort();
}
