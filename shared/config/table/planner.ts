import { planner, rowsFor, simulate, workers } from '../row.ts';

/** Laws that a planner can follow; to add one, name it here and call it in `tick` of the planner. The last four are Dynamo's optimization targets. */
export const PLANNER_LAWS = ['rate', 'throughput', 'latency', 'load', 'sla'] as const;

const local = rowsFor('local');
const planners = rowsFor('simulate', 'local', 'planner');

/** Rows of "Planner". */
export const plannerRows = {
  planner: rowsFor('simulate', 'local').bool({
    names: '--planner STATOR_LOCAL_PLANNER',
    default: false,
    about: 'Workers come and go as the planner decides.',
  }),
  plannerLaw: planners.choice({
    names: '--planner-law STATOR_PLANNER_LAW',
    values: [...PLANNER_LAWS, 'foresight'],
    defaultText: 'law or optimization_target of --planner-config, else rate',
    about: "Law of the planner; the middle four are Dynamo's optimization targets, foresight knows the workload.",
  }),
  plannerConfig: planners.jsonOrFile({
    names: '--planner-config STATOR_PLANNER_CONFIG',
    allowed: '.json, .yaml, .yml or inline JSON',
    about: 'Configuration of the planner, with the keys of docs/planner.md.',
  }),
  minWorkers: local.int({
    names: '--min-workers STATOR_LOCAL_MIN_WORKERS',
    range: { min: 0, max: 1000 },
    default: 1,
    about: 'With --planner: workers that stay; with 0 the last one goes when nothing was asked for long enough.',
  }),
  maxWorkers: local.int({
    names: '--max-workers STATOR_LOCAL_MAX_WORKERS',
    range: { min: 1, max: 1000 },
    default: 4,
    about: 'With --planner: workers at most.',
  }),
  startSeconds: simulate.decimal({
    names: '--start-seconds',
    range: { min: 0, max: 86_400, unit: 's' },
    default: 180,
    source: 'Stator',
    about: 'With --planner: from a decision to a worker that serves.',
  }),
  startFailures: simulate.decimal({
    names: '--start-failures',
    range: { min: 0, max: 0.95 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: share of the starts that come to nothing.',
  }),
  warmWorkers: simulate.int({
    names: '--warm-workers',
    range: { min: 0, max: 10_000 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: spares that start sooner, and are paid while they wait.',
  }),
  warmStartSeconds: simulate.decimal({
    names: '--warm-start-seconds',
    range: { min: 0, max: 86_400, unit: 's' },
    default: 45,
    source: 'Stator',
    about: 'With --planner: from a decision to a spare that serves.',
  }),
  interruptionsPerHour: simulate.decimal({
    names: '--interruptions-per-hour',
    range: { min: 0, max: 60 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: spot interruptions of each worker, each with two minutes of notice.',
  }),
  gpuPrice: simulate.decimal({
    names: '--gpu-price',
    range: { min: 0, max: 1000 },
    note: 'US$ an hour',
    default: 2,
    source: 'Stator',
    about: 'With --planner: price of a GPU.',
  }),
};

/** Rows of "Planner of a fleet". */
export const plannerProcessRows = {
  plannerConnector: planner.choice({
    names: '--planner-connector STATOR_PLANNER_CONNECTOR',
    values: ['virtual', 'local'],
    default: 'virtual',
    about: 'Who carries decisions out: an external system that reads targets, or worker processes of this machine.',
  }),
  plannerDir: rowsFor('planner', 'local').folder({
    names: '--planner-dir STATOR_PLANNER_DIR',
    written: true,
    defaultText: '$XDG_STATE_HOME/stator/planner, else ~/.local/state/stator/planner',
    about: 'Where a planner keeps what it knows and decided, and leaves its targets.',
  }),
  plannerTable: planner.text({
    names: 'STATOR_PLANNER_TABLE',
    about: 'DynamoDB table for the same, instead of the folder.',
  }),
  plannerModel: planner.text({
    names: '--planner-model STATOR_PLANNER_MODEL',
    defaultText: 'model_name of --planner-config, else the first that is heard',
    about: 'Model that is planned for.',
  }),
  scalingMaxWaitTimeSecs: planner.int({
    names: 'SCALING_MAX_WAIT_TIME',
    range: { above: 0, unit: 's' },
    default: 1800,
    about: 'An external system that has not acknowledged a decision for so long gets the next one.',
  }),
  plannerMetricsPort: planner.port({
    names: '--planner-metrics-port PLANNER_PROMETHEUS_PORT',
    note: '0 = off',
    default: 0,
    about: "Port of the planner's own /metrics, on loopback.",
  }),
  prometheusEndpoint: planner.url({
    names: '--prometheus-endpoint PROMETHEUS_ENDPOINT',
    schemes: ['http', 'https'],
    defaultText: 'unset = workers say what they serve',
    about: 'Prometheus that the traffic is read from.',
  }),
  prometheusToken: planner.secret({
    names: 'PROMETHEUS_TOKEN',
    about: 'Bearer token for that Prometheus.',
  }),
  plannerPrometheusRequestTimeoutSeconds: planner.decimal({
    names: 'DYN_PLANNER_PROMETHEUS_REQUEST_TIMEOUT_SECONDS',
    range: { max: 300, above: 0, unit: 's' },
    default: 10,
    about: 'Longest wait for an answer of that Prometheus.',
  }),
  eventRollupIntervalMs: workers.int({
    names: 'STATOR_EVENT_ROLLUP_INTERVAL_MS',
    range: { min: 0, max: 60_000, unit: 'ms' },
    note: '0 = off',
    default: 5000,
    about: 'How often a worker tells planners what it serves.',
  }),
};
