import { is, isNot, isUnmet, type Need, off, on, only, or } from './need.ts';
import type { Process } from './row.ts';
import { type SettingName, TABLE } from './table.ts';
import type { ConfigView } from './view.ts';

const KV: Need = {
  says: '--router-mode kv',
  reads: ['routerMode', 'mode'],
  holds: ({ values: { routerMode, mode, loadAware } }) =>
    loadAware === true || (routerMode ?? mode) === 'kv' || mode === 'load-aware',
};
/** Cost model, whose flag has its own name in the simulator. */
const ANY_COST_MODEL_BUT_STATOR: Need = {
  says: '--router-cost-model other than stator',
  reads: ['routerCostModel', 'costModel'],
  holds: ({ values: { routerCostModel, costModel } }) => (routerCostModel ?? costModel) !== 'stator',
};
const DYNAMO_COST_MODEL: Need = {
  says: '--router-cost-model dynamo',
  reads: ['routerCostModel', 'costModel'],
  holds: ({ values: { routerCostModel, costModel } }) => (routerCostModel ?? costModel) === 'dynamo',
};
const HASHING: Need = {
  says: '--router-role choose or stateless',
  reads: ['routerRole'],
  holds: ({ process, values: { routerRole } }) =>
    routerRole === 'choose' || routerRole === 'stateless' || (routerRole === undefined && process === 'function'),
};
const CHOOSE: Need = {
  says: '--router-role choose',
  reads: ['routerRole'],
  holds: ({ process, values: { routerRole } }) =>
    routerRole === 'choose' || (routerRole === undefined && process === 'function'),
};
const QUEUE: Need = {
  says: '--router-queue-threshold other than None',
  reads: ['routerQueueThreshold'],
  holds: ({ values }) => values.routerQueueThreshold !== null,
};
const KEYS = or(on('keysTable'), on('keysFile'));
const GRPC = or(on('grpcPort'), on('kserveGrpcServer'));
const PICKER = on('endpointPickerPort');
const GRPC_OR_PICKER = or(GRPC, PICKER);
const NATS = or(is('requestPlane', 'nats'), is('eventPlane', 'nats'));
const TCP = is('requestPlane', 'tcp');
const ZMQ = is('eventPlane', 'zmq');
const ETCD = is('discoveryBackend', 'etcd');
const KUBERNETES = is('discoveryBackend', 'kubernetes');
const MOCKER = is('engine', 'mocker');
const SERVICES = isNot('service', 'router');
const SIMULATED_PLANNER = only(['simulate', 'local'], on('planner'));
const SIMULATED_FLEETS = only(['simulate'], on('plannerFleets'));
const MADE_UP = on('workload');
const SHARED_TEXTS = is('workload', 'agents', 'tenants', 'retrieval', 'chats');
const PREDICTED_LOAD = only(['frontend', 'router'], is('routerPrefillLoadModel', 'aic'));
/** Conditions under which a process has a console. */
const CONSOLE: readonly Need[] = [isNot('consoleRequests', 0), off('disableFrontendAdminApi')];
/** Conditions under which the state of the caches is stored for routers that start later. */
const SHARED_STATE: readonly Need[] = [
  KV,
  is('eventPlane', 'nats'),
  or(on('stateTable'), is('discoveryBackend', 'file')),
];

/**
 * Conditions without which each setting has no effect. They are shown with the row, and a start warns once if a setting
 * is given in vain. `checks.ts` has the settings that must not be given together.
 */
const NEEDS: Readonly<Partial<Record<SettingName, readonly Need[]>>> = {
  httpSvcAnthropicPath: [on('enableAnthropicApi')],
  stripAnthropicPreamble: [on('enableAnthropicApi')],
  responseStoreTtlSecs: [isNot('responseStore', 'off')],
  responseStoreMaxMb: [isNot('responseStore', 'off')],
  consoleShowPrompts: CONSOLE,
  instancePrices: CONSOLE,
  tokenPrices: CONSOLE,
  keyCacheSecs: [KEYS],
  cacheIsolation: [KEYS],
  grpcMetricsPort: [on('kserveGrpcServer')],
  grpcMaxMessageMb: [GRPC],
  grpcInitialStreamWindowSize: [GRPC],
  grpcInitialConnectionWindowSize: [GRPC],
  grpcMaxConcurrentStreams: [GRPC_OR_PICKER],
  grpcKeepaliveTimeMs: [GRPC_OR_PICKER],
  grpcKeepaliveTimeoutMs: [GRPC_OR_PICKER, isNot('grpcKeepaliveTimeMs', 0)],
  grpcMaxConnectionAgeMs: [GRPC],
  endpointPickerTargetPort: [PICKER],
  endpointPickerFallbacks: [PICKER],
  endpointPickerSilenceSecs: [PICKER],
  endpointPickerSecureServing: [PICKER],

  routerSessionAffinityTtlSecs: [KV],
  routerSessionAffinityMode: [KV, on('routerSessionAffinityTtlSecs')],
  encoderCudaToCpuRatio: [
    {
      says: '--router-mode device-aware-weighted',
      reads: ['routerMode', 'mode'],
      holds: ({ values: { routerMode, mode } }) => (routerMode ?? mode) === 'device-aware-weighted',
    },
  ],
  routerBlockSize: [is('service', 'router')],
  servicePort: [SERVICES],
  serviceHost: [SERVICES],
  serviceSyncPort: [is('service', 'slots', 'selection')],
  servicePeers: [SERVICES],
  kvIndexerTestEndpoints: [is('service', 'indexer')],

  routerCostModel: [KV],
  routerKvOverlapScoreCredit: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerKvOverlapScoreCreditDecay: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerKvOverlapScoreWeight: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerPrefillLoadScale: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerDecodeActiveRequestWeight: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerHostCacheHitWeight: [KV],
  routerDiskCacheHitWeight: [KV],
  sharedCacheMultiplier: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerTemperature: [KV, ANY_COST_MODEL_BUT_STATOR],
  routerTieBreak: [KV],
  routerTrackActiveBlocks: [KV],
  routerAssumeKvReuse: [KV, on('routerTrackActiveBlocks')],
  routerTrackOutputBlocks: [KV],
  routerTrackPrefillTokens: [KV],
  aicBackend: [PREDICTED_LOAD],
  aicSystem: [PREDICTED_LOAD],
  aicModelPath: [PREDICTED_LOAD],
  aicTpSize: [PREDICTED_LOAD],
  aicMoeTpSize: [PREDICTED_LOAD],
  aicMoeEpSize: [PREDICTED_LOAD],
  aicAttentionDpSize: [PREDICTED_LOAD],
  routerPolicyConfig: [KV],
  routerTrackingHash: [KV],
  routerKvEvents: [KV],
  routerTtlSecs: [KV, off('routerKvEvents')],
  routerApproximateCachePolicy: [KV],
  routerPredictedTtlSecs: [KV],
  routerReplicaSync: [KV],
  routerSnapshotThreshold: SHARED_STATE,
  routerResetStates: SHARED_STATE,
  snapshotIntervalSecs: SHARED_STATE,
  useRemoteIndexer: [KV],
  serveIndexer: [KV],
  indexMaxMb: [KV],
  indexStalenessMs: [KV, HASHING],
  routerRole: [KV],
  routerChooseTimeoutMs: [KV, CHOOSE],
  routerConnectTimeoutMs: [KV, CHOOSE],
  routerAskedWorkers: [KV, HASHING],
  routerAskTimeoutMs: [KV, HASHING],
  routerGrpcPort: [KV, is('routerRole', 'resident')],
  reservationTtlMs: [KV, is('routerRole', 'resident')],
  routerQueueThreshold: [KV],
  routerQueuePolicy: [KV, QUEUE],
  activeDecodeBlocksThreshold: [is('admissionControl', 'token-capacity')],
  activePrefillTokensThreshold: [is('admissionControl', 'token-capacity')],
  activePrefillTokensThresholdFrac: [is('admissionControl', 'token-capacity')],
  routerOverlapRefreshAfterSecs: [KV, DYNAMO_COST_MODEL],
  routerActiveRequestExpirySecs: [KV],
  dynamoRequestQueueLimit: [on('engineRequestLimit')],
  holdMax: [or(on('holdTimeoutSecs'), on('planner'))],

  routerConditionalDisagg: [KV],
  routerConditionalDisaggConfig: [KV, on('routerConditionalDisagg')],
  bootstrapPorts: [MOCKER, is('disaggregationMode', 'prefill')],
  prefillDrainTimeoutSecs: [is('disaggregationMode', 'prefill')],
  kvTransferDomain: [on('topologyEnabled')],
  kvTransferEnforcement: [on('topologyEnabled')],
  kvTransferPreferredWeight: [on('topologyEnabled')],
  topologyMountPath: [on('topologyEnabled')],
  migrationMaxSeqLen: [isNot('migrationLimit', 0)],
  modelMemorySecs: [off('holdTimeoutSecs')],

  discoveryTable: [is('discoveryBackend', 'dynamodb')],
  fileKv: [is('discoveryBackend', 'file')],
  etcdEndpoints: [ETCD],
  etcdLeaseTtlSecs: [ETCD],
  etcdAuthUsername: [ETCD],
  etcdAuthPassword: [ETCD],
  etcdAuthCa: [ETCD],
  etcdAuthClientCert: [ETCD],
  etcdAuthClientKey: [ETCD],
  kubeDiscoveryMode: [KUBERNETES],
  tcpRequestTimeoutSecs: [TCP],
  tcpConnectTimeoutSecs: [TCP],
  tcpPoolSize: [TCP],
  tcpChannelBuffer: [TCP],
  tcpRpcHost: [TCP],
  tcpRpcPort: [TCP],
  tcpRpcAdvertiseHost: [TCP],
  tcpTlsServerName: [TCP],
  tcpTlsInsecure: [TCP],
  tcpTlsHandshakeTimeoutSecs: [TCP],
  natsRequestTimeoutSecs: [is('requestPlane', 'nats')],
  eventPlaneHost: [ZMQ],
  zmqBrokerUrl: [ZMQ],
  zmqBrokerEnabled: [ZMQ],
  natsServer: [NATS],
  planeTokenPrevious: [on('planeToken')],
  idSecretPrevious: [on('idSecret')],
  natsAuthUsername: [NATS],
  natsAuthPassword: [NATS],
  natsAuthToken: [NATS],
  natsAuthNkey: [NATS],
  natsAuthCredentialsFile: [NATS],
  natsTlsCaCertPath: [NATS],
  natsTlsInsecure: [NATS],
  natsTlsClientCertPath: [NATS],
  natsTlsClientKeyPath: [NATS],
  natsStreamReplicas: [is('eventPlane', 'nats')],
  natsStreamMaxAgeSecs: [is('eventPlane', 'nats')],
  natsStreamMaxMb: [is('eventPlane', 'nats')],

  plannerMetricsHost: [isNot('plannerMetricsPort', 0)],
  canaryWaitTimeSecs: [on('healthCheckEnabled')],
  otelExporterOtlpEndpoint: [on('otelExportEnabled')],
  otelExporterOtlpTracesEndpoint: [on('otelExportEnabled')],
  otelExporterOtlpLogsEndpoint: [on('otelExportEnabled')],
  otelExporterOtlpProtocol: [on('otelExportEnabled')],
  otelExporterOtlpTracesProtocol: [on('otelExportEnabled')],
  otelExporterOtlpLogsProtocol: [on('otelExportEnabled')],
  otelTracesSampleRatio: [on('otelExportEnabled')],
  otelExporterOtlpTimeoutMs: [on('otelExportEnabled')],
  otelBspScheduleDelayMs: [on('otelExportEnabled')],
  otelBlrpScheduleDelayMs: [on('otelExportEnabled')],
  otelTracesSampler: [on('otelExportEnabled')],
  otelTracesSamplerArg: [on('otelExportEnabled')],
  otelTracesExporter: [on('otelExportEnabled')],
  otelLogsExporter: [on('otelExportEnabled')],
  otelResourceAttributes: [on('otelExportEnabled')],
  requestTraceSinks: [on('requestTrace')],
  requestTraceFilePath: [on('requestTrace')],
  requestTraceFileFormat: [on('requestTrace')],
  requestTraceCapacity: [on('requestTrace')],

  engineApiKey: [on('engineUrl')],
  mmPromptTemplate: [on('enableMultimodal')],
  embeddingFrontendTokenization: [on('embeddingWorker')],
  embeddingWorkerProcesses: [on('embeddingWorker')],
  awsAllowHttp: [on('awsEndpoint')],
  speedupRatio: [MOCKER],
  decodeSpeedupRatio: [MOCKER],
  startupTimeSecs: [MOCKER],
  engineType: [MOCKER],
  mockOutput: [MOCKER],
  kvTransferBandwidth: [MOCKER],
  kvTransferTimingMode: [MOCKER],
  kvBytesPerToken: [MOCKER],
  zmqKvEventsPorts: [MOCKER],

  cpuSlowdown: [isNot('numCpuWorkers', 0)],
  replicaSyncDelayMs: [
    { says: '--routers 2 or more', reads: ['routers'], holds: ({ values }) => (values.routers ?? 1) > 1 },
    on('routerReplicaSync'),
  ],
  tuneSettings: [on('tune')],
  loadAgeMs: [is('routerRole', 'stateless')],
  askDelayMs: [is('routerRole', 'stateless')],
  traceBlockSize: [on('trace')],
  inputTokens: [MADE_UP],
  outputTokens: [MADE_UP],
  requestCount: [MADE_UP],
  arrivalIntervalMs: [MADE_UP, off('requestRate')],
  requestRate: [MADE_UP],
  burstSize: [is('workload', 'bursts', 'chats')],
  lengthSpread: [MADE_UP],
  turnsPerSession: [MADE_UP],
  sharedPrefixRatio: [is('workload', 'steady', 'poisson', 'bursts', 'sessions')],
  numPrefixGroups: [or(SHARED_TEXTS, isNot('sharedPrefixRatio', 0))],
  prefixTokensMin: [SHARED_TEXTS],
  prefixTokensMax: [SHARED_TEXTS],
  prefixSkew: [SHARED_TEXTS],
  documentsPerPrompt: [is('workload', 'retrieval')],
  interTurnDelayMs: [MADE_UP],
  plannerLaw: [SIMULATED_PLANNER],
  plannerConfig: [SIMULATED_PLANNER],
  minWorkers: [SIMULATED_PLANNER],
  maxWorkers: [SIMULATED_PLANNER],
  startSeconds: [SIMULATED_PLANNER],
  startFailures: [SIMULATED_PLANNER],
  warmWorkers: [SIMULATED_PLANNER],
  warmStartSeconds: [SIMULATED_PLANNER, isNot('warmWorkers', 0)],
  interruptionsPerHour: [SIMULATED_PLANNER],
  plannerFleets: [SIMULATED_PLANNER],
  plannerModel: [SIMULATED_FLEETS],
  plannerDir: CONSOLE.map((need) => only(['frontend'], need)),
  plannerTable: [only(['function'], on('holdTimeoutSecs')), ...CONSOLE.map((need) => only(['frontend'], need))],
  namespace: [SIMULATED_FLEETS],
  fleetConditions: [SIMULATED_PLANNER, on('plannerFleets')],
};

/**
 * Returns the conditions of the setting in words, for `process` or for any process that reads it; empty for most
 * settings.
 */
export function needsOf(setting: SettingName, process?: Process): string {
  const says = (NEEDS[setting] ?? []).flatMap((need) => {
    if (process === undefined)
      return need.only === undefined ? [need.says] : [`${need.says} (${need.only.join(', ')})`];
    const isFor = need.only?.includes(process) !== false;
    return isFor && need.reads.some((read) => TABLE.get(read)?.usedBy.includes(process)) ? [need.says] : [];
  });
  return says.length === 0 ? '' : `Needs ${says.join(', ')}.`;
}

/**
 * Returns one line for each unmet condition, with the settings that it makes useless.
 * @param nameGiven how the user has named a setting
 */
export function tellIdle(view: ConfigView, nameGiven: (setting: SettingName) => string): readonly string[] {
  const idle = new Map<string, string[]>();
  for (const setting of view.given.keys()) {
    if (!isMeant(setting, view)) continue;
    const missing = (NEEDS[setting] ?? []).find((need) => isUnmet(need, view));
    if (missing === undefined) continue;
    const names = idle.get(missing.says) ?? [];
    idle.set(missing.says, [...names, nameGiven(setting)]);
  }
  return [...idle].map(([says, names]) =>
    names.length === 1
      ? `${names[0]} has no effect: it needs ${says}`
      : `${names.join(', ')} have no effect: they need ${says}`,
  );
}

/** Whether every condition of the setting is met, so that a value of it counts. */
export function hasEffect(setting: SettingName, view: ConfigView): boolean {
  return (NEEDS[setting] ?? []).every((need) => !isUnmet(need, view));
}

/** Whether a setting was given another value than its default: a user who gives the default expects nothing from it. */
function isMeant(setting: SettingName, { process, values }: ConfigView): boolean {
  const row = TABLE.get(setting);
  return row !== undefined && values[setting] !== (row.defaultFor[process] ?? row.default);
}
