import { edges, fleetRouters, rowsFor, worker } from '../row.ts';

/** Rows of "Fault tolerance and migration". */
export const faultToleranceRows = {
  migrationLimit: edges.int({
    names: '--migration-limit DYN_MIGRATION_LIMIT',
    range: { min: 0 },
    note: '0 = off',
    default: 3,
    source: 'Dynamo: 0; 1.6.1: 0; here 3',
    about: 'Migrations of one request to another worker.',
  }),
  migrationMaxSeqLen: edges.int({
    names: '--migration-max-seq-len DYN_MIGRATION_MAX_SEQ_LEN',
    range: { min: 1, unit: 'tokens' },
    defaultText: 'unset = no limit',
    about: 'Prompt plus output above this is no longer migratable.',
  }),
  inhibitedDurationSecs: fleetRouters.decimal({
    names: 'DYN_INHIBITED_DURATION_SECS DYN_RUNTIME_INHIBITED_DURATION_SECS',
    range: { min: 0, unit: 's' },
    note: '0 = off',
    default: 5,
    about: 'A worker that failed gets no request for this long.',
  }),
  modelMemorySecs: edges.decimal({
    names: '--model-memory-secs STATOR_MODEL_MEMORY_SECS',
    range: { min: 0, unit: 's' },
    note: '0 = off; no end with --hold-timeout',
    default: 600,
    about: 'How long requests for a model whose last worker has gone get 503 with Retry-After; later ones get 404.',
  }),
  gracefulShutdownGracePeriodSecs: worker.decimal({
    names: 'DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS',
    range: { min: 0, unit: 's' },
    note: '300 for deployed fleets',
    default: 5,
    source: 'Dynamo (vLLM page)',
    about: 'Time for running requests to end after SIGTERM; then those that can migrate move to other workers.',
  }),
  runtimeGracefulShutdownTimeoutSecs: worker.int({
    names: 'DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS',
    olderNames: 'DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT',
    range: { min: 0, unit: 's' },
    default: 900,
    about: 'Hard drain bound for requests that cannot migrate, or that no other worker takes.',
  }),
  streamStallSecs: edges.decimal({
    names: 'STATOR_STREAM_STALL_SECS',
    range: { min: 0.1, unit: 's' },
    default: 10,
    about: 'A stream silent this long marks its worker stalled.',
  }),
  engineWarmUpSecs: rowsFor(...edges.usedBy, 'worker').decimal({
    names: 'STATOR_ENGINE_WARM_UP_SECS',
    range: { min: 0, unit: 's' },
    note: '0 = none',
    default: 120,
    about:
      'Time for the first answer of an engine, which may have to compile first; until then silence or a failed canary does not count ' +
      'against it. If another worker has answered before, it takes over the requests sooner.',
  }),
  stableRoutingId: worker.text({
    names: 'DYN_STABLE_ROUTING_ID',
    about: 'Routing identity that survives a restart of the worker.',
  }),
};
