import {
  bool,
  brokers,
  choice,
  FLEET,
  json,
  LASTING_FLEET,
  PLANE_SERVERS,
  port,
  ports,
  text,
  WORKERS,
} from '../row.ts';

/** Rows of "Event plane". */
export const eventPlaneRows = {
  eventPlane: choice({
    flags: ['--event-plane'],
    env: ['DYN_EVENT_PLANE'],
    values: ['zmq', 'nats'],
    decide: (facts) => (facts.read('discoveryBackend') === 'dynamodb' ? 'nats' : 'zmq'),
    defaultText: 'zmq for file and mem; nats for dynamodb',
    usedBy: FLEET,
    source: 'Dynamo; 1.6.1: zmq always',
    about: 'Carries KV events and load.',
  }),
  eventPlaneCodec: choice({
    env: ['DYN_EVENT_PLANE_CODEC'],
    values: ['msgpack'],
    refused: { json: 'not built yet' },
    defaultText: 'msgpack',
    usedBy: FLEET,
    source: '1.6.1',
    about: 'Codec of event payloads.',
  }),
  eventPlaneHost: text({
    env: ['DYN_EVENT_PLANE_HOST'],
    allowed: 'IP',
    defaultText: 'auto',
    usedBy: PLANE_SERVERS,
    source: '1.6.1',
    about: 'Address that a ZMQ publisher advertises.',
  }),
  zmqBrokerUrl: brokers({
    env: ['DYN_ZMQ_BROKER_URL'],
    usedBy: LASTING_FLEET,
    source: '1.6.1',
    about: 'ZMQ broker addresses.',
  }),
  zmqBrokerEnabled: bool({
    env: ['DYN_ZMQ_BROKER_ENABLED'],
    default: false,
    usedBy: LASTING_FLEET,
    source: '1.6.1',
    about: 'Looks the ZMQ broker up in discovery.',
  }),
};

/** Rows of "KV events publishing". */
export const kvEventsRows = {
  kvEventsConfig: json({
    flags: ['--kv-events-config'],
    known: [
      'enable_kv_cache_events',
      'publisher',
      'endpoint',
      'replay_endpoint',
      'buffer_steps',
      'hwm',
      'max_queue_size',
      'topic',
    ],
    defaultText: 'set by the sidecar, on loopback; off for decode workers and without prefix caching',
    usedBy: ['worker'],
    source: 'Dynamo (vLLM page)',
    about: "Engine's event publisher; on only with enable_kv_cache_events.",
  }),
  enableLocalIndexer: bool({
    flags: ['--enable-local-indexer'],
    default: true,
    usedBy: ['worker'],
    source: 'older Dynamo; 1.6.1: always on',
    about: 'Worker keeps its own index for replays and dumps.',
  }),
  zmqKvEventsPorts: ports({
    flags: ['--zmq-kv-events-ports'],
    note: 'one per worker; rank adds to it',
    usedBy: WORKERS,
    source: '1.6.1 (mocker)',
    about: "Mock publisher in vLLM's format.",
  }),
  zmqReplayPorts: ports({
    flags: ['--zmq-replay-ports'],
    note: 'one per worker; rank adds to it',
    usedBy: WORKERS,
    source: '1.6.1 (mocker)',
    about: 'Mock replay socket.',
  }),
  vllmKvEventPort: port({
    env: ['DYN_VLLM_KV_EVENT_PORT'],
    min: 1024,
    default: 20080,
    usedBy: ['worker'],
    source: 'older Dynamo',
    about: "Port of the engine's event stream that the sidecar sets up.",
  }),
  vllmKvEventsUseIntBlockHashes: bool({
    env: ['VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES'],
    defaultText: "engine's",
    usedBy: ['worker'],
    source: 'engine',
    about: 'Engine sends 64-bit block hashes; both forms are read.',
  }),
};
