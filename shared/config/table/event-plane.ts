import { fleet, lastingFleet, planeServers, worker, workers } from '../row.ts';
import { byMachines, MANY_MACHINES, WITHIN_A_MACHINE } from './discovery.ts';

/** Rows of "Event plane". */
export const eventPlaneRows = {
  eventPlane: fleet.choice({
    names: '--event-plane DYN_EVENT_PLANE',
    values: ['zmq', 'nats'],
    decide: (facts) => (facts.read('wire') === 'dynamo' ? 'zmq' : byMachines(facts, 'nats', 'zmq')),
    defaultText: `zmq for ${WITHIN_A_MACHINE} and with --wire dynamo; nats for ${MANY_MACHINES}`,
    source: 'Dynamo; 1.6.1: zmq always',
    about: 'Carries KV events and load.',
  }),
  eventPlaneCodec: fleet.choice({
    names: 'DYN_EVENT_PLANE_CODEC',
    values: ['msgpack'],
    refused: { json: 'not built yet' },
    defaultText: 'msgpack',
    about: 'Codec of event payloads.',
  }),
  eventPlaneHost: planeServers.text({
    names: 'DYN_EVENT_PLANE_HOST',
    allowed: 'IP',
    defaultText: 'auto',
    about: 'Address that a ZMQ publisher advertises.',
  }),
  zmqBrokerUrl: lastingFleet.brokers({
    names: 'DYN_ZMQ_BROKER_URL',
    about: 'ZMQ broker addresses.',
  }),
  zmqBrokerEnabled: lastingFleet.bool({
    names: 'DYN_ZMQ_BROKER_ENABLED',
    about: 'Looks the ZMQ broker up in discovery.',
  }),
};

/** Rows of "KV events publishing". */
export const kvEventsRows = {
  kvEventsConfig: worker.json({
    names: '--kv-events-config',
    defaultText: 'set by the sidecar, on loopback; off for decode workers and without prefix caching',
    source: 'Dynamo (vLLM page)',
    about: "Engine's event publisher; on only with enable_kv_cache_events.",
  }),
  enableLocalIndexer: worker.bool({
    names: '--enable-local-indexer',
    default: true,
    source: 'older Dynamo; 1.6.1: always on',
    about: 'Lets the worker keep its own index for replays and dumps.',
  }),
  zmqKvEventsPorts: workers.ports({
    names: '--zmq-kv-events-ports',
    note: 'one per worker; rank adds to it',
    source: '1.6.1 (mocker)',
    about: "Mock publisher in vLLM's format.",
  }),
  zmqReplayPorts: workers.ports({
    names: '--zmq-replay-ports',
    note: 'one per worker; rank adds to it',
    source: '1.6.1 (mocker)',
    about: 'Mock replay socket.',
  }),
  vllmKvEventPort: worker.portRange({
    names: 'DYN_VLLM_KV_EVENT_PORT',
    range: { min: 1024 },
    note: 'rank adds to it',
    defaultText: 'one of STATOR_ENGINE_PORTS',
    source: 'older Dynamo',
    about:
      'Port of the KV event stream of a started engine. A single port that is in use is an error; of a range, the first free port is used.',
  }),
  vllmKvEventsUseIntBlockHashes: worker.boolOrUnset({
    names: 'VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES',
    defaultText: "engine's",
    source: 'engine',
    about: 'Engine sends 64-bit block hashes; both forms are read.',
  }),
};
