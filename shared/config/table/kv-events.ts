import { WORKERS } from '../processes.ts';
import { bool, json, port, ports } from '../row.ts';

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
