import { planner, rowsFor, simulate, workers } from '../row.ts';

/**
 * Laws that a planner can follow. To add one, name it here and call it in `tick` of the planner. The last four are
 * Dynamo's optimization targets.
 */
export const PLANNER_LAWS = ['rate', 'throughput', 'latency', 'load', 'sla'] as const;

const local = rowsFor('local');
const planners = rowsFor('simulate', 'local', 'planner');

/** Rows of "Planner". */
export const plannerRows = {
  planner: rowsFor('simulate', 'local').bool({
    names: '--planner STATOR_LOCAL_PLANNER',
    default: false,
    about: 'Starts and ends workers as the planner decides.',
  }),
  plannerLaw: planners.choice({
    names: '--planner-law STATOR_PLANNER_LAW',
    values: [...PLANNER_LAWS, 'foresight'],
    defaultText: 'law or optimization_target of --planner-config, else rate',
    about:
      "Law of the planner. throughput, latency, load and sla are Dynamo's optimization targets; foresight knows the workload.",
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
    about:
      'With --planner: smallest number of workers; with 0 the last one ends after a long enough time without requests.',
  }),
  maxWorkers: local.int({
    names: '--max-workers STATOR_LOCAL_MAX_WORKERS',
    range: { min: 1, max: 1000 },
    default: 4,
    about: 'With --planner: largest number of workers.',
  }),
  startSeconds: simulate.decimal({
    names: '--start-seconds',
    range: { min: 0, max: 86_400, unit: 's' },
    default: 180,
    source: 'Stator',
    about: 'With --planner: time from a decision to a worker that serves.',
  }),
  startFailures: simulate.decimal({
    names: '--start-failures',
    range: { min: 0, max: 0.95 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: share of the starts that fail.',
  }),
  warmWorkers: simulate.int({
    names: '--warm-workers',
    range: { min: 0, max: 10_000 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: spare workers, which start sooner and cost money while they wait.',
  }),
  warmStartSeconds: simulate.decimal({
    names: '--warm-start-seconds',
    range: { min: 0, max: 86_400, unit: 's' },
    default: 45,
    source: 'Stator',
    about: 'With --planner: time from a decision to a spare worker that serves.',
  }),
  interruptionsPerHour: simulate.decimal({
    names: '--interruptions-per-hour',
    range: { min: 0, max: 60 },
    default: 0,
    source: 'Stator',
    about: 'With --planner: spot interruptions of each worker per hour, each with two minutes of notice.',
  }),
  fleetConditions: simulate.jsonOrFile({
    names: '--fleet-conditions',
    allowed: '.json or inline JSON',
    source: 'Stator',
    about:
      'With --planner-fleets: start times, shortages, spot interruptions and prices of the options of the simulated fleet.',
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
    values: ['virtual', 'local', 'ec2', 'kubernetes', 'eks'],
    default: 'virtual',
    about:
      'How decisions are carried out: by an external system that reads targets (virtual), by worker processes on this machine (local), by Auto Scaling groups (ec2), or by Deployments of a cluster that is entered with a service account or kubeconfig (kubernetes) or with credentials of AWS (eks).',
  }),
  plannerFleets: rowsFor('planner', 'simulate').jsonOrFile({
    names: '--planner-fleets STATOR_PLANNER_FLEETS',
    allowed: '.json or inline JSON',
    about:
      'Fleets with the options of their pools. With --planner-connector ec2, and in a simulation with --planner: Auto Scaling groups. With kubernetes or eks: workloads of a cluster.',
  }),
  plannerDir: rowsFor('planner', 'local', 'frontend').folder({
    names: '--planner-dir STATOR_PLANNER_DIR',
    written: true,
    defaultText: '$XDG_STATE_HOME/stator/planner, else ~/.local/state/stator/planner',
    about:
      'Folder in which a planner keeps what it knows, its decisions and its targets; a frontend only shows them in its console.',
  }),
  plannerTable: rowsFor('planner', 'function', 'frontend').text({
    names: 'STATOR_PLANNER_TABLE',
    about:
      'DynamoDB table that holds the same instead of --planner-dir; a frontend only reads it, and a function notes in it which requests it holds.',
  }),
  plannerModel: rowsFor('planner', 'simulate').text({
    names: '--planner-model STATOR_PLANNER_MODEL',
    defaultText: 'model_name of --planner-config, else the first that reports',
    about: 'Model whose workers the planner scales.',
  }),
  scalingMaxWaitTimeSecs: planner.int({
    names: 'SCALING_MAX_WAIT_TIME',
    range: { above: 0, unit: 's' },
    default: 1800,
    about:
      'How long the planner waits until an external system acknowledges a decision; then it publishes the next one.',
  }),
  plannerMetricsPort: planner.port({
    names: '--planner-metrics-port PLANNER_PROMETHEUS_PORT',
    note: '0 = off',
    default: 0,
    about: "Port of the planner's own /metrics.",
  }),
  plannerMetricsHost: planner.text({
    names: '--planner-metrics-host STATOR_PLANNER_METRICS_HOST',
    allowed: 'IP',
    note: 'auto = every address',
    default: '127.0.0.1',
    about: "Listen address of the planner's own /metrics; beyond loopback every client that reaches it may read it.",
  }),
  prometheusEndpoint: planner.url({
    names: '--prometheus-endpoint PROMETHEUS_ENDPOINT',
    schemes: ['http', 'https'],
    defaultText: 'unset = workers report what they serve',
    about: 'Prometheus from which the planner reads the traffic.',
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
    about: 'Interval at which a worker reports to planners what it serves.',
  }),
};
