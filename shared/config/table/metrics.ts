import { EVERY_ADDRESS, everyAddress } from '../listen-hosts.ts';
import { edges, planeServers, rowsFor, worker, workers } from '../row.ts';
import { byMachines, MANY_MACHINES, WITHIN_A_MACHINE } from './discovery.ts';

const statusServers = rowsFor('worker', 'router');

/** Returns the row for the lowest or the highest bucket of a histogram. */
const bucketEnd = (env: string, value: number, what: string) =>
  edges.decimal({
    names: env,
    range: { above: 0 },
    note: 'min < max',
    lenient: true,
    default: value,
    about: `Buckets of ${what}.`,
  });

/** Returns the row for the number of buckets. */
const bucketCount = (env: string, value: number, what: string) =>
  edges.int({ names: env, range: { min: 1, max: 512 }, lenient: true, default: value, about: `Buckets of ${what}.` });

/** Rows of "Metrics and health". */
export const metricsRows = {
  metricsPrefix: rowsFor(...edges.usedBy, 'planner').text({
    names: '--metrics-prefix DYN_METRICS_PREFIX',
    allowed: 'invalid characters become _',
    default: 'dynamo_frontend',
    source: 'Dynamo',
    about: 'Prefix of all frontend metrics; a planner asks Prometheus for metrics with it.',
  }),
  metricsRequestDurationMin: bucketEnd('DYN_METRICS_REQUEST_DURATION_MIN', 1, 'request duration, seconds'),
  metricsRequestDurationMax: bucketEnd('DYN_METRICS_REQUEST_DURATION_MAX', 512, 'request duration, seconds'),
  metricsRequestDurationCount: bucketCount('DYN_METRICS_REQUEST_DURATION_COUNT', 10, 'request duration, seconds'),
  metricsInputSequenceMin: bucketEnd('DYN_METRICS_INPUT_SEQUENCE_MIN', 50, 'input tokens'),
  metricsInputSequenceMax: bucketEnd('DYN_METRICS_INPUT_SEQUENCE_MAX', 128000, 'input tokens'),
  metricsInputSequenceCount: bucketCount('DYN_METRICS_INPUT_SEQUENCE_COUNT', 12, 'input tokens'),
  metricsOutputSequenceMin: bucketEnd('DYN_METRICS_OUTPUT_SEQUENCE_MIN', 50, 'output tokens'),
  metricsOutputSequenceMax: bucketEnd('DYN_METRICS_OUTPUT_SEQUENCE_MAX', 32000, 'output tokens'),
  metricsOutputSequenceCount: bucketCount('DYN_METRICS_OUTPUT_SEQUENCE_COUNT', 10, 'output tokens'),
  metricsTtftMin: bucketEnd('DYN_METRICS_TTFT_MIN', 0.001, 'time to first token, seconds'),
  metricsTtftMax: bucketEnd('DYN_METRICS_TTFT_MAX', 480, 'time to first token, seconds'),
  metricsTtftCount: bucketCount('DYN_METRICS_TTFT_COUNT', 18, 'time to first token, seconds'),
  metricsItlMin: bucketEnd('DYN_METRICS_ITL_MIN', 0.001, 'inter-token latency, seconds'),
  metricsItlMax: bucketEnd('DYN_METRICS_ITL_MAX', 80, 'inter-token latency, seconds'),
  metricsItlCount: bucketCount('DYN_METRICS_ITL_COUNT', 20, 'inter-token latency, seconds'),
  metricsEmbeddingLatencyMin: bucketEnd('DYN_METRICS_EMBEDDING_LATENCY_MIN', 0.001, 'embedding latency, seconds'),
  metricsEmbeddingLatencyMax: bucketEnd('DYN_METRICS_EMBEDDING_LATENCY_MAX', 10, 'embedding latency, seconds'),
  metricsEmbeddingLatencyCount: bucketCount('DYN_METRICS_EMBEDDING_LATENCY_COUNT', 14, 'embedding latency, seconds'),
  emf: rowsFor('frontend', 'host').bool({
    names: 'STATOR_EMF',
    about:
      'Reports to CloudWatch by log lines in its embedded metric format: a frontend requests, streams and workers every 15 s, a host its GPUs every minute.',
  }),
  emfService: rowsFor('frontend', 'host').text({
    names: 'STATOR_EMF_SERVICE',
    default: 'stator',
    about:
      'Value of the dimension Service of the metrics of STATOR_EMF; containers of one service share it. A host has its group there unless this is set.',
  }),
  systemPort: planeServers.portRange({
    names: 'DYN_SYSTEM_PORT',
    range: { min: -1 },
    note: '-1 = off, 0 = any free',
    decide: (facts) => byMachines(facts, { first: 9100, last: 9163 }, { first: -1, last: -1 }),
    defaultText: `9100-9163 for ${MANY_MACHINES}; -1 for ${WITHIN_A_MACHINE}`,
    source: '1.6.1; range: Stator',
    about:
      'Port of the status server of a worker: health, live, metrics, files of the model. Of a range, the first free port is used.',
  }),
  systemHost: planeServers.text({
    names: 'DYN_SYSTEM_HOST',
    allowed: 'IP',
    decide: everyAddress,
    defaultText: EVERY_ADDRESS,
    about: 'Address of the status server.',
  }),
  controlPort: worker.port({
    names: 'STATOR_CONTROL_PORT',
    range: { min: -1 },
    note: '-1 = off, 0 = any free',
    defaultText: 'unset = off',
    about: 'Port of the control routes of a worker: adapters, sleep, cache.',
  }),
  controlHost: worker.text({
    names: 'STATOR_CONTROL_HOST',
    allowed: 'IP',
    default: '127.0.0.1',
    about: 'Address of the control routes; beyond loopback they need STATOR_PLANE_TOKEN and TLS.',
  }),
  systemHealthPath: statusServers.route({
    names: 'DYN_SYSTEM_HEALTH_PATH',
    default: '/health',
    about: 'Health path of the status server.',
  }),
  systemLivePath: statusServers.route({
    names: 'DYN_SYSTEM_LIVE_PATH',
    default: '/live',
    about: 'Liveness path of the status server.',
  }),
  systemStartingHealthStatus: statusServers.choice({
    names: 'DYN_SYSTEM_STARTING_HEALTH_STATUS',
    values: ['ready', 'notready'],
    default: 'notready',
    about: 'Health before the first endpoint is ready.',
  }),
  systemUseEndpointHealthStatus: worker.jsonTexts({
    names: 'DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS',
    allowed: 'a JSON list of endpoint names',
    default: [],
    source: '1.6.1 (deprecated)',
    about: 'Endpoints whose health counts.',
  }),
  systemEnabled: statusServers.boolOrUnset({
    names: 'DYN_SYSTEM_ENABLED',
    source: 'older Dynamo',
    deprecated: 'DYN_SYSTEM_PORT decides',
    about: 'Has no effect.',
  }),
  healthCheckEnabled: workers.bool({
    names: 'DYN_HEALTH_CHECK_ENABLED',
    about: 'Sends canary requests to idle endpoints.',
  }),
  canaryWaitTimeSecs: workers.decimal({
    names: 'DYN_CANARY_WAIT_TIME',
    range: { above: 0, unit: 's' },
    default: 10,
    about: 'Idle time before a canary.',
  }),
  healthCheckRequestTimeoutSecs: workers.decimal({
    names: 'DYN_HEALTH_CHECK_REQUEST_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 3,
    about: "Deadline of a canary's first item.",
  }),
  healthCheckPayload: workers.json({
    names: '--health-check-payload DYN_HEALTH_CHECK_PAYLOAD',
    defaultText: "role's own",
    source: 'Dynamo (vLLM page); flag 1.6.1',
    about: 'Overrides the canary payload; the marker is added.',
  }),
  engineHealthCheckIntervalSecs: worker.decimal({
    names: 'DYN_ENGINE_HEALTH_CHECK_INTERVAL',
    range: { above: 0, unit: 's' },
    default: 2,
    source: '1.6.1; interval Dynamo (vLLM page)',
    about: 'Interval of the engine monitor.',
  }),
  engineHealthCheckTimeoutSecs: worker.decimal({
    names: 'DYN_ENGINE_HEALTH_CHECK_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 30,
    about: 'Deadline of an engine check.',
  }),
  engineHealthShutdownTimeoutSecs: worker.decimal({
    names: 'DYN_ENGINE_HEALTH_SHUTDOWN_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 60,
    about: 'Deadline of shutting an engine down.',
  }),
};
