import { mockers, rowsFor, worker, workers } from '../row.ts';

const olderRole = (names: string, about: string) =>
  worker.bool({
    names,
    note: 'at most one of the three',
    source: 'older Dynamo',
    deprecated: 'use --enable-multimodal and --disaggregation-mode',
    about,
  });

/** Rows of "Worker and vLLM engine". */
export const workerRows = {
  engine: workers.choice({
    names: '--engine STATOR_ENGINE',
    values: ['mocker', 'vllm', 'sglang', 'trtllm', 'openai'],
    defaultFor: { local: 'mocker' },
    defaultText: 'mocker in stator local, else required',
    required: true,
    about: 'Engine that a worker drives.',
  }),
  engineUrl: workers.url({
    names: '--engine-url STATOR_ENGINE_URL',
    schemes: ['http', 'https'],
    about: 'Attaches to a running engine server instead of starting one.',
  }),
  engineCommand: workers.text({
    names: '--engine-command STATOR_ENGINE_COMMAND',
    allowed: 'a program and its first arguments, split at spaces',
    defaultText: 'vllm, python3 -m sglang.launch_server or trtllm-serve',
    about: 'Command that starts the engine if --engine-url is not given.',
  }),
  engineStartTimeoutSecs: workers.decimal({
    names: '--engine-start-timeout STATOR_ENGINE_START_TIMEOUT_SECS',
    range: { above: 0, unit: 's' },
    defaultText: '1800 for an engine that is started, else 10',
    about: 'How long a worker waits until its engine is healthy and has described itself.',
  }),
  enginePorts: worker.portRange({
    names: '--engine-ports STATOR_ENGINE_PORTS',
    range: { min: 1024 },
    default: { first: 21_000, last: 29_999 },
    about:
      'Range from which a started engine gets free ports (HTTP, KV events, its own processes); other workers do not take them meanwhile.',
  }),
  deviceType: workers.choice({
    names: '--device-type STATOR_DEVICE_TYPE',
    values: ['cpu', 'cuda'],
    defaultText: 'cpu for a vLLM that reports a CPU build, else unknown',
    about: 'Device that the engine runs on, for routers; unknown counts as cuda in device-aware mode.',
  }),
  hostFacts: worker.json({
    names: 'STATOR_HOST_FACTS',
    known: ['instance_id', 'instance_type', 'zone', 'market', 'group', 'generation'],
    defaultText: 'in Kubernetes, the pod as instance_id',
    about: 'Facts about the machine, which planners read from the registration; stator host sets them.',
  }),
  engineApiKey: workers.secret({
    names: '--engine-api-key STATOR_ENGINE_API_KEY',
    about: 'Bearer key sent to --engine-url.',
  }),
  model: workers.text({
    names: '--model',
    allowed: 'model id or folder',
    defaultText: 'the first that an attached server lists',
    source: 'Dynamo (vLLM page): Qwen/Qwen3-0.6B, for an engine that is started',
    about: 'Model of the engine: id or folder to start it with, or its name at an attached server.',
  }),
  servedModelName: worker.list({
    names: '--served-model-name',
    unsplit: true,
    allowed: 'a name; for vLLM also several, separated by blanks',
    defaultText: 'value of --model',
    about:
      'Name under which the model is registered; further names are aliases. Without it, a path is registered whole, ' +
      'as vLLM does (Dynamo takes the last part of the path).',
  }),
  engineConfigJson: worker.file({
    names: '--engine-config-json',
    allowed: 'a JSON file of engine arguments',
    about: 'File of engine flags, by name; flags on the command line win.',
  }),
  engineArguments: rowsFor('worker', 'local', 'planner').rest({
    default: [],
    source: 'Dynamo (vLLM page)',
    about:
      'With --engine vllm or sglang, every flag that this table does not list goes to the engine unchanged, with the values that ' +
      'follow it, and so do all arguments after --. Arguments after -- of stator planner go to its workers.',
  }),
  tensorParallelSize: worker.int({
    names: '--tensor-parallel-size',
    range: { min: 1 },
    default: 1,
    source: 'Dynamo (vLLM page)',
    about: 'Passed to the engine.',
  }),
  kvTransferConfig: worker.json({
    names: '--kv-transfer-config',
    note: 'needed in prefill mode',
    source: 'Dynamo (vLLM page)',
    about: 'KV connector; passed to the engine, read for roles.',
  }),
  enablePrefixCaching: mockers.bool({
    names: '--enable-prefix-caching',
    default: true,
    source: 'Dynamo (vLLM page)',
    about: 'Prefix caching of engine and mocker.',
  }),
  prefixCachingAlgo: worker.text({
    names: '--prefix-caching-algo --prefix-caching-hash-algo',
    allowed: 'for example sha256',
    defaultText: "engine's",
    source: 'Dynamo (vLLM page)',
    about: 'Deterministic block hashes across processes.',
  }),
  enablePromptEmbeds: worker.bool({
    names: '--enable-prompt-embeds',
    source: 'Dynamo (vLLM page)',
    about: 'Accepts prompt embeddings; NATS needs 15 MB payloads for them.',
  }),
  pythonhashseed: worker.int({
    names: 'PYTHONHASHSEED',
    range: { min: 0, max: 4294967295 },
    lenient: true,
    defaultText: '0 set by the sidecar',
    source: 'Dynamo (vLLM page)',
    about: 'Deterministic hashing of a started engine.',
  }),
  endpointTypes: worker.choices({
    names: '--endpoint-types DYN_ENDPOINT_TYPES',
    olderNames: '--dyn-endpoint-types',
    values: ['chat', 'completions', 'none'],
    default: ['chat', 'completions'],
    about: 'Registered routes.',
  }),
  useVllmTokenizer: worker.bool({
    names: '--use-vllm-tokenizer DYN_VLLM_USE_TOKENIZER',
    about: 'Sends text instead of tokens to the engine; only chat is served.',
  }),
  sleepModeLevel: worker.int({
    names: '--sleep-mode-level DYN_VLLM_SLEEP_MODE_LEVEL',
    range: { min: 1, max: 3 },
    default: 1,
    source: 'older Dynamo',
    about: 'Depth of engine sleep.',
  }),
  headless: worker.bool({
    names: '--headless DYN_VLLM_HEADLESS',
    about: 'Secondary node of a multi-node engine; no endpoints.',
  }),
  enableMultimodal: worker.bool({
    names: '--enable-multimodal DYN_VLLM_ENABLE_MULTIMODAL',
    about: 'Accepts media parts; the engine itself renders chats that hold them.',
  }),
  routeToEncoder: worker.bool({
    names: '--route-to-encoder DYN_VLLM_ROUTE_TO_ENCODER',
    about: 'Sends media to encode workers.',
  }),
  multimodalEncodeWorker: olderRole(
    '--multimodal-encode-worker DYN_VLLM_MULTIMODAL_ENCODE_WORKER',
    'Older role: encodes media.',
  ),
  multimodalWorker: olderRole('--multimodal-worker DYN_VLLM_MULTIMODAL_WORKER', 'Older role: serves media requests.'),
  multimodalDecodeWorker: olderRole(
    '--multimodal-decode-worker DYN_VLLM_MULTIMODAL_DECODE_WORKER',
    'Older role: decodes for media requests.',
  ),
  mmPromptTemplate: worker.text({
    names: '--mm-prompt-template DYN_VLLM_MM_PROMPT_TEMPLATE',
    default: 'USER: <image>\n<prompt> ASSISTANT:',
    about: 'Text around prompts with media, if given; otherwise the engine places media by its own template.',
  }),
  streamInterval: worker.int({
    names: '--stream-interval DYN_VLLM_STREAM_INTERVAL DYN_SGLANG_STREAM_INTERVAL',
    range: { min: 1, unit: 'tokens' },
    defaultText: "engine's",
    about: 'Tokens per engine output.',
  }),
  vllmNixlSideChannelHost: worker.text({
    names: 'VLLM_NIXL_SIDE_CHANNEL_HOST',
    defaultText: 'own address',
    about: 'Host of the side channel of the NIXL connector; if unset, the worker sets its own address.',
  }),
  vllmNixlSideChannelPort: worker.port({
    names: 'VLLM_NIXL_SIDE_CHANNEL_PORT',
    note: 'rank adds to it',
    defaultText: 'one of STATOR_ENGINE_PORTS',
    about: 'Port of the side channel of the NIXL connector; a port that is in use is an error.',
  }),
  vllmServerDevMode: worker.boolOrUnset({
    names: 'VLLM_SERVER_DEV_MODE',
    defaultText: '1 for an engine that is started, on loopback',
    source: 'engine',
    about: 'Opens development routes of a started engine, sleep and wake included.',
  }),
  vllmLogStatsIntervalSecs: worker.decimal({
    names: 'VLLM_LOG_STATS_INTERVAL',
    range: { above: 0, unit: 's' },
    lenient: true,
    default: 10,
    source: 'engine',
    about: 'Interval of engine statistics.',
  }),
  connector: worker.list({
    names: '--connector DYN_CONNECTOR',
    default: [],
    source: '1.6.1: rejected',
    about: 'Rejected; the error shows the --kv-transfer-config to use.',
  }),
  httpTimeoutSecs: worker.decimal({
    names: '--http-timeout DYN_HTTP_TIMEOUT',
    range: { above: 0, unit: 's' },
    about: 'Deadline of fetching media; does not apply to the server.',
  }),
  httpConnectTimeoutSecs: worker.decimal({
    names: '--http-connect-timeout DYN_HTTP_CONNECT_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 5,
    about: 'Deadline of connecting to fetch media; does not apply to the server.',
  }),
  httpMaxConnections: worker.int({
    names: '--http-max-connections DYN_HTTP_MAX_CONNECTIONS',
    range: { above: 0 },
    default: 100,
    about: 'Connections that fetch media at the same time; does not apply to the server.',
  }),
  httpKeepaliveTimeoutSecs: worker.decimal({
    names: '--http-keepalive-timeout DYN_HTTP_KEEPALIVE_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 15,
    about: 'Idle life of a connection that fetches media; does not apply to the server.',
  }),
  mmAllowInternal: workers.bool({
    names: 'DYN_MM_ALLOW_INTERNAL',
    about: 'Media URLs may point to private addresses.',
  }),
  mmLocalPath: worker.folder({
    names: 'DYN_MM_LOCAL_PATH',
    about: 'Folder from which file URLs may be read.',
  }),
  mmMaxFileSizeMb: workers.int({
    names: 'DYN_MM_MAX_FILE_SIZE_MB',
    range: { min: 1, unit: 'MiB' },
    defaultText: '100',
    about: 'Largest fetched medium.',
  }),
  mmMaxDataUrlMb: workers.int({
    names: 'DYN_MM_MAX_DATA_URL_MB',
    range: { min: 1, unit: 'MiB' },
    defaultText: '32',
    about: 'Largest inline medium.',
  }),
  mmMaxRequestMb: workers.int({
    names: 'STATOR_MM_MAX_REQUEST_MB',
    range: { min: 1, unit: 'MiB' },
    default: 256,
    about: 'Size of all media of a request together.',
  }),
  mediaAllowHosts: workers.list({
    names: 'STATOR_MEDIA_ALLOW_HOSTS',
    allowed: 'host names, * as prefix',
    defaultText: 'unset = any public host',
    about: 'Hosts from which media may be fetched.',
  }),
};
