import { edges, lastingRouters, router, routers, workers } from '../row.ts';

/** Rows of "Router modes". */
export const routerModesRows = {
  routerMode: edges.choice({
    names: '--router-mode DYN_ROUTER_MODE',
    values: ['round-robin', 'random', 'power-of-two', 'kv', 'direct', 'least-loaded', 'device-aware-weighted'],
    default: 'round-robin',
    source: 'Dynamo; power-of-two 1.6.1',
    about: 'Routing strategy; underscores are accepted.',
  }),
  loadAware: routers.bool({
    names: '--load-aware DYN_ROUTER_LOAD_AWARE',
    source: 'Dynamo',
    about: 'Load-only preset; implies --router-mode kv.',
  }),
  routerMinInitialWorkers: lastingRouters.int({
    names: '--router-min-initial-workers DYN_ROUTER_MIN_INITIAL_WORKERS',
    range: { min: 0 },
    note: '0 = no wait',
    default: 0,
    about: 'Workers that must exist before the start continues, which waits half an hour at most.',
  }),
  routerSessionAffinityTtlSecs: routers.int({
    names: '--router-session-affinity-ttl-secs DYN_ROUTER_SESSION_AFFINITY_TTL_SECS',
    range: { min: 1, max: 31536000, unit: 's' },
    defaultText: 'unset = off',
    about: "Idle life of a session's binding to a worker.",
  }),
  routerSessionAffinityMode: routers.choice({
    names: '--router-session-affinity-mode DYN_ROUTER_SESSION_AFFINITY_MODE',
    values: ['hard', 'soft'],
    default: 'hard',
    about: 'Whether the binding of a session is a constraint (hard) or a preference (soft).',
  }),
  encoderCudaToCpuRatio: routers.decimal({
    names: 'DYN_ENCODER_CUDA_TO_CPU_RATIO',
    range: { above: 0 },
    default: 8,
    about: 'Weight of an accelerator against a CPU, device-aware mode.',
  }),
  routerSeed: routers.int({
    names: 'STATOR_ROUTER_SEED',
    range: { min: 0, max: 4294967295 },
    defaultText: 'random',
    about: 'Seed of ties and sampling, for repeatable runs.',
  }),
  routerEndpoint: router.text({
    names: '--endpoint DYN_ROUTER_ENDPOINT',
    allowed: 'namespace.component.endpoint',
    defaultText: 'required by the router, unused by the other services',
    about: 'Workers that the standalone router serves.',
  }),
  routerBlockSize: router.int({
    names: '--router-block-size DYN_ROUTER_BLOCK_SIZE',
    olderNames: '--block-size',
    range: { min: 1, unit: 'tokens' },
    default: 128,
    about: 'Block size of the standalone router.',
  }),
  service: router.choice({
    names: '--service STATOR_ROUTER_SERVICE',
    values: ['router', 'indexer', 'slots', 'selection'],
    default: 'router',
    about: 'What runs: the router on the request plane, or the indexer, slot tracker or selection service on HTTP.',
  }),
  servicePort: router.port({
    names: '--service-port STATOR_ROUTER_SERVICE_PORT',
    range: { min: 0 },
    note: '0 = any free',
    defaultText: '8090 indexer, 8091 slots, 8092 selection',
    about: 'Port of an HTTP service.',
  }),
  serviceHost: router.text({
    names: '--service-host STATOR_ROUTER_SERVICE_HOST',
    allowed: 'IP or host name',
    default: '127.0.0.1',
    about: 'Listen address of an HTTP service; beyond loopback it needs STATOR_PLANE_TOKEN and TLS.',
  }),
  serviceSyncPort: router.port({
    names: '--service-sync-port STATOR_ROUTER_SERVICE_SYNC_PORT',
    range: { min: 0 },
    note: '0 = any free',
    defaultText: 'unset = replicas are not told',
    about: 'Port on which the slot tracker and the selection service tell their replicas what they book.',
  }),
  servicePeers: router.urls({
    names: '--service-peers STATOR_ROUTER_SERVICE_PEERS',
    schemes: ['http', 'https', 'tcp'],
    default: [],
    about:
      'Replicas known from the start: http:// URLs of indexers, of which the first dump is loaded; tcp:// sync ports of the other services.',
  }),
};

/** Rows of "Queue and admission". */
export const queueRows = {
  routerQueueThreshold: routers.decimalOrAuto({
    names: '--router-queue-threshold DYN_ROUTER_QUEUE_THRESHOLD',
    range: { min: 0 },
    // The selection service queues only if its queue is configured, so workers need not report how many tokens they
    // batch.
    decide: (facts): number | 'auto' | null => (facts.read('service') === 'selection' ? null : 'auto'),
    defaultText: 'auto; stator router --service selection: None',
    source: 'Dynamo: 16; 1.6.1: unset',
    about:
      'Fraction of prefill capacity above which requests queue, with either cost model. auto: 16 with dynamo; with stator requests queue while every worker prefills.',
  }),
  routerQueuePolicy: routers.choice({
    names: '--router-queue-policy DYN_ROUTER_QUEUE_POLICY',
    values: ['fcfs', 'wspt', 'lcfs', 'auto'],
    default: 'auto',
    source: 'Dynamo: fcfs; 1.6.1: no lcfs',
    about:
      'Order of the router queue, with either cost model. auto: fcfs with dynamo; with stator the request with the least left to compute goes first, and time spent waiting counts.',
  }),
  admissionControl: edges.choice({
    names: '--admission-control DYN_ADMISSION_CONTROL',
    values: ['none', 'token-capacity'],
    default: 'none',
    source: 'Dynamo',
    about: 'token-capacity applies the busy thresholds; none clears them.',
  }),
  activeDecodeBlocksThreshold: edges.decimalOrNone({
    names: '--active-decode-blocks-threshold DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD',
    range: { min: 0, max: 1 },
    default: 1,
    source: 'Dynamo; 1.6.1: unset',
    about: 'KV use above which a worker is busy.',
  }),
  activePrefillTokensThreshold: edges.intOrNone({
    names: '--active-prefill-tokens-threshold DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD',
    range: { min: 0 },
    default: 10000000,
    source: 'Dynamo; 1.6.1: unset',
    about: 'Active prefill tokens above which a worker is busy.',
  }),
  activePrefillTokensThresholdFrac: edges.decimalOrNone({
    names: '--active-prefill-tokens-threshold-frac DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC',
    range: { min: 0 },
    default: 64,
    source: 'Dynamo; 1.6.1: unset',
    about:
      'Active prefill tokens, as a fraction of max_num_batched_tokens, above which a worker is busy; exceeding either threshold is enough.',
  }),
  routerOverlapRefreshAfterSecs: lastingRouters.decimal({
    names: 'DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS',
    range: { min: 0, unit: 's' },
    note: '0 = never',
    default: 10,
    about: 'Time in the queue after which the overlap of a request is looked up again.',
  }),
  routerActiveRequestExpirySecs: routers.int({
    names: 'DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS',
    range: { min: 1, unit: 's' },
    default: 300,
    about: 'Age at which a lost active request is freed.',
  }),
  engineRequestLimit: workers.int({
    names: '--engine-request-limit DYN_ENGINE_REQUEST_LIMIT',
    range: { min: 1 },
    defaultText: 'unset = no limit',
    about: 'Requests that a worker runs at once.',
  }),
  dynamoRequestQueueLimit: workers.int({
    names: 'DYN_DYNAMO_REQUEST_QUEUE_LIMIT',
    range: { min: 2 },
    default: 16,
    about: 'Requests that wait behind --engine-request-limit.',
  }),
  speculativePrefillsMax: edges.int({
    names: 'STATOR_SPECULATIVE_PREFILLS_MAX',
    range: { min: 0 },
    note: '0 = off',
    default: 16,
    about: 'Prompts of next turns that are computed ahead at the same time (nvext.agent_hints.speculative_prefill).',
  }),
  maxTokensDefault: edges.int({
    names: 'STATOR_MAX_TOKENS_DEFAULT',
    range: { min: 1, max: 4_294_967_295, unit: 'tokens' },
    defaultText: 'unset = what the context leaves',
    about:
      'Output tokens of a choice if the request names no number. A lower default of the model wins, and a client may ask for more. Does not apply to models whose workers read prompts themselves.',
  }),
  holdTimeoutSecs: edges.int({
    names: '--hold-timeout STATOR_HOLD_TIMEOUT',
    range: { min: 0, unit: 's' },
    note: '0 = no hold',
    defaultText: 'unset = no hold',
    about: 'How long requests for a model without a ready worker are held.',
  }),
  plannedModels: edges.plannedModels({
    names: '--planned-models STATOR_PLANNED_MODELS',
    defaultText: 'unset = none',
    about:
      'Models whose workers a planner starts. Requests for one that no worker has served yet are held, or get 503 with Retry-After without --hold-timeout, instead of 404.',
  }),
  holdMax: edges.int({
    names: '--hold-max STATOR_HOLD_MAX',
    range: { min: 0 },
    default: 256,
    about: 'Held requests per model; further ones get 503 with Retry-After.',
  }),
};
