import { cloudEdges, frontend, lastingFleet, lastingRouters, router, routers, rowsFor } from '../row.ts';

/** Rows of "Router events and index". */
export const routerIndexRows = {
  routerKvEvents: routers.bool({
    names: '--router-kv-events DYN_ROUTER_USE_KV_EVENTS',
    olderNames: '--kv-events',
    default: true,
    source: 'Dynamo',
    about: 'Index from worker events, or predicted.',
  }),
  routerTtlSecs: routers.decimal({
    names: '--router-ttl-secs DYN_ROUTER_TTL_SECS',
    range: { min: 0, unit: 's' },
    default: 120,
    source: 'Dynamo',
    about: 'Life of predicted blocks when KV events are off.',
  }),
  routerApproximateCachePolicy: routers.choice({
    names: '--router-approximate-cache-policy DYN_ROUTER_APPROXIMATE_CACHE_POLICY',
    values: ['ttl', 'lru'],
    note: 'lru needs KV events off',
    default: 'ttl',
    about: 'How predicted blocks leave.',
  }),
  routerPredictedTtlSecs: routers.decimal({
    names: '--router-predicted-ttl-secs DYN_ROUTER_PREDICTED_TTL_SECS',
    range: { min: 0, unit: 's' },
    note: 'needs KV events',
    defaultText: 'unset = off',
    about: 'Life of entries predicted when a request is routed.',
  }),
  routerReplicaSync: routers.bool({
    names: '--router-replica-sync DYN_ROUTER_REPLICA_SYNC',
    source: 'Dynamo',
    about: 'Shares active requests between router replicas.',
  }),
  routerSnapshotThreshold: routers.intOrNone({
    names: '--router-snapshot-threshold DYN_ROUTER_SNAPSHOT_THRESHOLD',
    range: { min: 1 },
    default: 1000000,
    source: 'Dynamo; 1.6.1 ignores it',
    about: 'Event messages before a snapshot.',
  }),
  routerResetStates: lastingRouters.bool({
    names: '--router-reset-states DYN_ROUTER_RESET_STATES',
    source: 'Dynamo; 1.6.1 ignores it',
    about: 'Drops stored router state at start; harms running replicas.',
  }),
  routerDurableKvEvents: routers.bool({
    names: '--router-durable-kv-events DYN_ROUTER_DURABLE_KV_EVENTS',
    source: 'Dynamo (deprecated); 1.6.1: error',
    deprecated: 'it changes nothing',
    about: 'Recognised and without effect: KV events have one log.',
  }),
  routerEventThreads: lastingRouters.int({
    names: '--router-event-threads DYN_ROUTER_EVENT_THREADS',
    range: { min: 1 },
    default: 4,
    source: 'Dynamo',
    about: 'Index threads; accepted, one thread reaches the stated speed.',
  }),
  useRemoteIndexer: routers.bool({
    names: '--use-remote-indexer DYN_USE_REMOTE_INDEXER',
    note: 'excludes --serve-indexer',
    about: 'Asks an index served elsewhere instead of keeping one.',
  }),
  serveIndexer: lastingRouters.bool({
    names: '--serve-indexer DYN_SERVE_INDEXER',
    note: 'excludes --use-remote-indexer',
    about: 'Serves the local index on the request plane.',
  }),
  kvIndexerTestEndpoints: router.bool({
    names: 'DYN_KV_INDEXER_TEST_ENDPOINTS',
    about: 'Adds the pause and resume routes of the standalone indexer.',
  }),
  indexMaxMb: routers.int({
    names: 'STATOR_INDEX_MAX_MB',
    range: { min: 16, unit: 'MiB' },
    default: 1024,
    about: 'Memory bound of the block index; a metric shows it reached.',
  }),
  indexStalenessMs: routers.int({
    names: 'STATOR_INDEX_STALENESS_MS',
    range: { min: 100, unit: 'ms' },
    default: 2000,
    about: 'Age above which an embedded index is not used.',
  }),
  snapshotIntervalSecs: lastingRouters.int({
    names: 'STATOR_SNAPSHOT_INTERVAL_SECS',
    range: { min: 1, unit: 's' },
    default: 60,
    about: 'Longest time between two index snapshots.',
  }),
  routerRole: routers.choice({
    names: '--router-role STATOR_ROUTER_ROLE',
    values: ['resident', 'embedded', 'choose', 'stateless'],
    defaultText: 'function choose, others embedded',
    about: 'Where the routing decision of mode kv is made; a resident also answers others.',
  }),
  routerChooseTimeoutMs: cloudEdges.int({
    names: 'STATOR_ROUTER_CHOOSE_TIMEOUT_MS',
    range: { min: 1, max: 10000, unit: 'ms' },
    default: 10,
    about: 'Deadline of the first Choose message, connecting excluded.',
  }),
  routerConnectTimeoutMs: cloudEdges.int({
    names: 'STATOR_ROUTER_CONNECT_TIMEOUT_MS',
    range: { min: 1, max: 10000, unit: 'ms' },
    default: 100,
    about: 'Deadline of opening the Choose channel at start.',
  }),
  routerAskedWorkers: rowsFor('frontend', 'function', 'simulate').int({
    names: '--router-asked-workers STATOR_ROUTER_ASKED_WORKERS',
    range: { min: 0, max: 8 },
    note: '0 = none',
    default: 4,
    about: 'Workers that are asked what a request would cost there, where hashing decides.',
  }),
  routerAskTimeoutMs: cloudEdges.int({
    names: 'STATOR_ROUTER_ASK_TIMEOUT_MS',
    range: { min: 1, max: 10000, unit: 'ms' },
    default: 50,
    about: 'Deadline of all that one request asks workers, connecting included.',
  }),
  routerGrpcPort: frontend.port({
    names: 'STATOR_ROUTER_GRPC_PORT',
    note: '0 = any free',
    defaultText: 'unset = not served',
    about: 'Port on which a resident router also answers by gRPC (proto/router.proto).',
  }),
  reservationTtlMs: lastingRouters.int({
    names: 'STATOR_RESERVATION_TTL_MS',
    range: { min: 100, unit: 'ms' },
    default: 2000,
    about: 'A reservation that the worker never reports is freed.',
  }),
  loadReportIntervalMs: lastingFleet.int({
    names: 'STATOR_LOAD_REPORT_INTERVAL_MS',
    range: { min: 100, max: 60000, unit: 'ms' },
    default: 1000,
    about: 'Interval of worker load reports.',
  }),
};
