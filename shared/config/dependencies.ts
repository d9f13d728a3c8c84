import { DISCOVERY_STORES, type DiscoveryStore } from './table/discovery.ts';
import { nameOf, type SettingName } from './table.ts';
import type { PortRange } from './values/numbers.ts';
import type { ConfigView, SettingValues } from './view.ts';

/** Settings that no process accepts any more, with what to use instead. */
export const REFUSED_SETTINGS = {
  connector:
    'is no longer accepted: use --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\' or the ' +
    "connector's own JSON",
} as const satisfies Partial<Record<SettingName, string>>;

/** Condition on several settings together. */
interface Dependency {
  readonly setting: SettingName;
  readonly holds: (view: ConfigView) => boolean;
  readonly says: string;
}

/** Conditions that a kind of worker puts on the other settings. */
const WORKER_KINDS: readonly Dependency[] = [
  {
    setting: 'embeddingWorker',
    holds: ({ values }) =>
      values.embeddingWorker !== true || (values.engine !== 'mocker' && values.engine !== 'trtllm'),
    says: 'needs --engine vllm, sglang or openai: the others make no embeddings',
  },
  {
    setting: 'embeddingWorker',
    holds: ({ values: { embeddingWorker, disaggregationMode: mode = 'agg' } }) =>
      embeddingWorker !== true || mode === 'agg',
    says: 'needs --disaggregation-mode agg: an embedding has no decode',
  },
  {
    setting: 'omni',
    holds: ({ values }) => values.omni !== true || values.engine === 'vllm',
    says: 'needs --engine vllm: it drives vLLM-Omni',
  },
  {
    setting: 'omni',
    holds: ({ values: { omni, disaggregationMode: mode = 'agg' } }) => omni !== true || mode === 'agg',
    says: 'needs --disaggregation-mode agg: the engine divides its pipeline by itself',
  },
  {
    setting: 'outputModalities',
    holds: ({ given, values }) => !given.has('outputModalities') || values.omni === true,
    says: 'needs --omni',
  },
  {
    setting: 'embeddingWorkerProcesses',
    holds: ({ values }) => (values.embeddingWorkerProcesses ?? 1) === 1,
    says: 'can only be 1: for more processes, start more workers that attach to the engine of the first one with --engine-url',
  },
];

/** Conditions on the settings of `stator host`. */
const HOSTS: readonly Dependency[] = [
  {
    setting: 'hostWorkerImage',
    holds: ({ values }) => values.hostRunner !== 'docker' || values.hostWorkerImage !== undefined,
    says: 'is needed by --host-runner docker; --host-runner process runs this program itself',
  },
  {
    setting: 'hostWeightsUri',
    holds: ({ values: { hostWeightsUri: uri } }) => uri === undefined || /^s3:\/\/[^/]+\/.+/.test(uri),
    says: 'must be s3://bucket/prefix/',
  },
  {
    setting: 'hostWeightsMode',
    holds: ({ values }) => values.hostWeightsMode !== 'disk' || values.hostWeightsUri !== undefined,
    says: 'disk needs --host-weights-uri',
  },
  {
    setting: 'hostWorkerArguments',
    holds: ({ values: { hostWorkerArguments: args, hostWeightsUri: uri } }) =>
      uri !== undefined || args?.some((argument) => argument.includes('{weights}')) !== true,
    says: '{weights} needs --host-weights-uri',
  },
  {
    setting: 'hostEndsAt',
    holds: ({ values: { hostEndsAt: at } }) => at === undefined || !Number.isNaN(Date.parse(at)),
    says: 'must be a time as 2026-12-01T11:30:00Z',
  },
  {
    setting: 'hostGpusPerReplica',
    holds: ({ values: { hostGpus: gpus, hostGpusPerReplica: each = 1 } }) => !gpus || gpus >= each,
    says: 'is more than --host-gpus: no worker has room',
  },
];

/** Conditions on the settings of `stator simulate`. */
const SIMULATIONS: readonly Dependency[] = [
  ...(['requestRate', 'arrivalIntervalMs', 'arrivalSpeedup', 'replayConcurrency'] as const).map(
    (setting): Dependency => ({
      setting: 'load',
      holds: ({ given, values }) => values.load === undefined || !given.has(setting),
      says: `and ${nameOf(setting)} exclude each other: the load decides when requests arrive`,
    }),
  ),
  {
    setting: 'load',
    holds: ({ values }) => values.load === undefined || values.planner !== true,
    says: 'and --planner exclude each other: the capacity of such a fleet changes',
  },
  {
    setting: 'tune',
    holds: ({ values }) => values.tune !== true || (values.mode === 'kv' && values.routerRole !== 'stateless'),
    says: 'compares cost models: it needs --router-mode kv and no --router-role stateless',
  },
  {
    setting: 'tune',
    holds: ({ values: { tune, planner, sweep = [], report } }) =>
      tune !== true || (planner !== true && sweep.length === 0 && report === undefined),
    says: 'excludes --planner, --sweep and --report',
  },
  {
    setting: 'seeds',
    holds: ({ values }) => (values.seeds ?? 1) === 1 || values.planner !== true,
    says: 'can only be 1 with --planner',
  },
];

/** Every condition that the settings of a process must fulfil together. */
export const DEPENDENCIES: readonly Dependency[] = [
  {
    setting: 'routerPrefillLoadModel',
    holds: ({ values }) => values.routerPrefillLoadModel !== 'aic' || values.routerTrackPrefillTokens === true,
    says: 'aic needs --router-track-prefill-tokens',
  },
  {
    setting: 'routerPrefillLoadModel',
    holds: ({ process, values }) =>
      values.routerPrefillLoadModel !== 'aic' ||
      process === 'function' || // a function asks routers that keep their load
      [values.aicBackend, values.aicSystem, values.aicModelPath].every((value) => value !== undefined),
    says: 'aic needs --aic-backend, --aic-system and --aic-model-path',
  },
  {
    setting: 'routerPrefillLoadModel',
    holds: ({ values }) => values.routerPrefillLoadModel !== 'aic' || (values.routerMode ?? 'kv') === 'kv',
    says: 'aic needs --router-mode kv',
  },
  {
    setting: 'routerApproximateCachePolicy',
    holds: ({ values }) => values.routerApproximateCachePolicy !== 'lru' || values.routerKvEvents === false,
    says: 'lru needs --no-router-kv-events',
  },
  {
    setting: 'routerTrackingHash',
    holds: ({ values }) =>
      values.routerTrackingHash !== 'keyed-xxh3-v1' ||
      (values.routerTrackingKeyFile !== undefined && values.routerTrackingKeyId !== undefined),
    says: 'keyed-xxh3-v1 needs --router-tracking-key-file and --router-tracking-key-id',
  },
  ...(['routerTrackingKeyFile', 'routerTrackingKeyId'] as const).map(
    (setting): Dependency => ({
      setting,
      holds: ({ values }) => values[setting] === undefined || values.routerTrackingHash === 'keyed-xxh3-v1',
      says: 'needs --router-tracking-hash keyed-xxh3-v1',
    }),
  ),
  {
    setting: 'routerTrackingKeyId',
    holds: ({ values: { routerTrackingKeyId: id } }) => id === undefined || (id !== '' && id.trim() === id),
    says: 'must be a name without spaces around it',
  },
  {
    setting: 'auth',
    holds: ({ values }) => values.auth !== 'on' || (values.keysTable ?? values.keysFile) !== undefined,
    says: 'on needs a store of API keys: STATOR_KEYS_TABLE or --keys-file; stator keys create makes the first key',
  },
  {
    setting: 'tlsClientCaCertPath',
    holds: ({ values }) => values.tlsClientCaCertPath === undefined || values.tlsCertPath !== undefined,
    says: 'needs --tls-cert-path and --tls-key-path',
  },
  {
    setting: 'connector',
    holds: ({ values }) => (values.connector ?? []).length === 0,
    says: REFUSED_SETTINGS.connector,
  },
  {
    setting: 'engine',
    holds: ({ values }) => values.engine !== 'openai' || values.engineUrl !== undefined,
    says: 'openai needs --engine-url, the base URL of the running server',
  },
  {
    setting: 'engineUrl',
    holds: ({ values }) => values.engineUrl === undefined || values.engine !== 'mocker',
    says: 'needs --engine vllm, sglang, trtllm or openai: the mocker has no server',
  },
  {
    setting: 'engine',
    holds: ({ values }) =>
      !['vllm', 'sglang', 'trtllm'].includes(values.engine ?? '') ||
      values.engineUrl !== undefined ||
      (values.model ?? values.modelPath) !== undefined,
    says: 'needs --model, the id or folder of the model to serve, or --engine-url, a running server',
  },
  {
    setting: 'kvTransferConfig',
    holds: ({ values }) =>
      values.engine !== 'vllm' ||
      values.engineUrl !== undefined ||
      values.disaggregationMode !== 'prefill' ||
      values.kvTransferConfig !== undefined,
    says: 'is required for a prefill worker, e.g. \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\'',
  },
  {
    setting: 'routeToEncoder',
    holds: ({ values }) =>
      values.routeToEncoder !== true || values.disaggregationMode === 'agg' || values.disaggregationMode === 'prefill',
    says: 'needs --disaggregation-mode agg or prefill: only such workers compute prompts',
  },
  {
    setting: 'disaggregationMode',
    holds: ({ values }) => values.disaggregationMode !== 'encode' || values.enableMultimodal === true,
    says: 'encode needs --enable-multimodal',
  },
  {
    setting: 'enableMultimodal',
    holds: ({ values }) =>
      values.enableMultimodal !== true || ['vllm', 'trtllm', 'openai'].includes(values.engine ?? ''),
    says: 'needs --engine vllm or trtllm; --engine openai passes media on without it',
  },
  ...WORKER_KINDS,
  ...HOSTS,
  ...SIMULATIONS,
  {
    setting: 'mmPromptTemplate',
    holds: ({ values }) => values.mmPromptTemplate?.includes('<prompt>') !== false,
    says: 'needs <prompt>, where the text of the request goes',
  },
  {
    setting: 'discoveryBackend',
    holds: ({ process, values }) =>
      process === 'local' || values.discoveryBackend !== 'dynamodb' || values.discoveryTable !== undefined,
    says: 'dynamodb needs STATOR_DISCOVERY_TABLE',
  },
  {
    setting: 'requestPlane',
    holds: ({ process, values }) => process !== 'function' || values.requestPlane !== 'nats',
    says: 'nats is not for a function, which has no client of NATS: use tcp here and at the workers, or stator frontend',
  },
  {
    setting: 'etcdAuthCa',
    holds: ({ values: { etcdAuthCa: ca, etcdEndpoints: urls } }) => ca === undefined || isAllTls(urls),
    says: 'needs https: in each of ETCD_ENDPOINTS',
  },
  {
    setting: 'etcdAuthClientCert',
    holds: ({ values: { etcdAuthClientCert: cert, etcdEndpoints: urls } }) => cert === undefined || isAllTls(urls),
    says: 'needs https: in each of ETCD_ENDPOINTS',
  },
  {
    setting: 'discoveryBackend',
    holds: ({ process, values }) => process !== 'local' || reachOf(values) === 'one machine',
    says: 'must be file for stator local: its workers are processes of their own on this machine',
  },
  {
    setting: 'numPrefillWorkers',
    holds: ({ given, values }) =>
      values.numPrefillWorkers === undefined || !(given.has('workers') || given.has('numWorkers')),
    says: 'and --num-workers exclude each other: workers form either two pools or one',
  },
  {
    setting: 'numPrefillWorkers',
    holds: ({ process, values }) =>
      process !== 'local' || values.numPrefillWorkers === undefined || values.engine === 'mocker',
    says: 'needs --engine mocker: start the workers of other engines one by one',
  },
  {
    setting: 'disaggregationMode',
    holds: ({ process, given, values }) =>
      process !== 'local' || values.numPrefillWorkers === undefined || !given.has('disaggregationMode'),
    says: 'and --num-prefill-workers exclude each other: each worker of the two pools has the role of its pool',
  },
  {
    setting: 'endpointTypes',
    holds: ({ values: { endpointTypes: types = [] } }) => types.length < 2 || !types.includes('none'),
    says: 'none cannot be combined with others: it registers no route',
  },
  {
    setting: 'grpcPort',
    holds: ({ values }) => values.kserveGrpcServer !== true || values.grpcPort === undefined,
    says: 'and --kserve-grpc-server exclude each other: the latter serves gRPC on --http-port',
  },
  {
    setting: 'endpointPickerPort',
    holds: ({ values }) => values.kserveGrpcServer !== true || values.endpointPickerPort === undefined,
    says: 'and --kserve-grpc-server exclude each other: the latter reads no bodies of HTTP',
  },
  {
    setting: 'endpointPickerPort',
    holds: ({ values }) => values.routerMode !== 'direct' || values.endpointPickerPort === undefined,
    says: 'needs another --router-mode than direct, in which each request names its worker',
  },
  {
    setting: 'endpointPickerPort',
    holds: ({ values: { roles = [], endpointPickerPort } }) =>
      endpointPickerPort === undefined || roles.length === 0 || roles.includes('http'),
    says: 'needs http among the --roles, whose routes it reads',
  },
  {
    setting: 'endpointPickerTargetPort',
    holds: ({ values }) => values.endpointPickerTargetPort?.length !== 0,
    says: 'must name at least one port',
  },
  {
    setting: 'roles',
    holds: ({ values: { roles = [], kserveGrpcServer } }) =>
      kserveGrpcServer !== true || roles.length === 0 || (roles.includes('grpc') && !roles.includes('http')),
    says: 'can only be grpc or grpc,router with --kserve-grpc-server',
  },
  {
    setting: 'roles',
    holds: ({ values }) => values.roles?.includes('router') !== true || values.routerMode === 'kv',
    says: 'router needs --router-mode kv',
  },
  {
    setting: 'roles',
    holds: ({ values }) => values.roles?.includes('router') !== true || values.routerRole === 'resident',
    says: 'router allows no --router-role but resident',
  },
  {
    setting: 'routerRole',
    holds: ({ values: { routerRole, roles = [] } }) =>
      routerRole !== 'resident' || roles.length === 0 || roles.includes('router'),
    says: 'resident needs router among the --roles',
  },
  {
    setting: 'systemPort',
    holds: ({ process, values }) => process !== 'local' || isEnough(values.systemPort, localWorkersMax(values)),
    says: 'has fewer ports than there are workers: use 0 (any free port) or a range such as 9100-9163',
  },
  {
    setting: 'tcpRpcPort',
    holds: ({ process, values }) =>
      process !== 'local' || values.requestPlane !== 'tcp' || isEnough(values.tcpRpcPort, localWorkersMax(values)),
    says: 'has fewer ports than there are workers: use 0 (any free port) or a range such as 8800-8863',
  },
];

function isAllTls(urls: readonly string[] = []): boolean {
  return urls.every((url) => url.startsWith('https:'));
}

function reachOf({ discoveryBackend }: SettingValues): (typeof DISCOVERY_STORES)[DiscoveryStore] | undefined {
  return discoveryBackend && DISCOVERY_STORES[discoveryBackend];
}

/** Returns the largest number of workers of `stator local` that may run at the same time. */
function localWorkersMax({ planner, maxWorkers = 1, numWorkers = 1, engine, ...values }: SettingValues): number {
  const { numPrefillWorkers = 0, numDecodeWorkers } = values;
  if (numDecodeWorkers !== undefined) return numPrefillWorkers + numDecodeWorkers;
  if (planner) return maxWorkers;
  return engine === 'openai' ? 1 : numWorkers;
}

/** Whether each of `processes` finds a port in the range. */
export function isEnough(ports: PortRange | undefined, processes: number): boolean {
  return ports === undefined || ports.first <= 0 || ports.last - ports.first + 1 >= processes;
}
