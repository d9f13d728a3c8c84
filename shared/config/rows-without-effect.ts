import { CONTAINERS, HTTP_SERVERS, MOCKERS, type Process, ROUTERS, TIMING_MODEL_USERS, WORKERS } from './processes.ts';
import { buildRow, type Row } from './row.ts';
import { familyType, listType } from './values/choices.ts';
import { booleanType, textType } from './values/texts.ts';
import type { ValueType } from './values/value-type.ts';

const TYPES = { text: textType({}), texts: listType({}), switch: booleanType(), family: familyType() } as const;

/** Names of one setting, its readers, what it takes, and what to use instead where there is something. */
type NameWithoutEffect = readonly [string, readonly Process[], keyof typeof TYPES, string?];

/**
 * Settings of Dynamo that nothing here stands behind, and nothing is planned to. They are taken with a warning, so that what
 * starts Dynamo starts this, and so that their misspellings are told from others.
 */
const NAMES: readonly NameWithoutEffect[] = [
  ['DYN_HTTP_SVC_CLASSIFY_PATH', HTTP_SERVERS, 'text'],
  ['DYN_HTTP_SVC_RERANK_PATH', HTTP_SERVERS, 'text'],
  ['DYN_HTTP_SVC_POOLING_PATH', HTTP_SERVERS, 'text'],
  ['DYN_HTTP_SVC_FILES_PATH', HTTP_SERVERS, 'text'],
  ['DYN_HTTP_SVC_BATCHES_PATH', HTTP_SERVERS, 'text'],
  ['--frontend-route-extension DYN_FRONTEND_ROUTE_EXTENSIONS', ['frontend'], 'texts'],
  ['DYN_FRONTEND_FD_LIMIT_TARGET', ['frontend'], 'text', 'set the limit where the process is started'],
  ['DYN_FRONTEND_JEMALLOC', ['frontend'], 'text', 'Node has an allocator of its own'],
  [
    '--trust-remote-code DYN_TRUST_REMOTE_CODE',
    ['frontend', 'grpc', 'worker'],
    'switch',
    'tokenizers run no code of a model',
  ],
  ['--dyn-structural-tag DYN_STRUCTURAL_TAG', WORKERS, 'text'],
  ['--dyn-enable-structural-tag DYN_ENABLE_STRUCTURAL_TAG', ['worker'], 'switch'],
  ['--dyn-structural-tag-scope DYN_STRUCTURAL_TAG_SCOPE', ['worker'], 'text'],
  ['--dyn-structural-tag-schema DYN_STRUCTURAL_TAG_SCHEMA', ['worker'], 'text'],
  ['--aic-nextn --ais-nextn DYN_AIS_NEXTN', TIMING_MODEL_USERS, 'text'],
  ['--aic-nextn-accept-rates --ais-nextn-accept-rates DYN_AIS_NEXTN_ACCEPT_RATES', TIMING_MODEL_USERS, 'texts'],
  ['--aic-mtp-seed --ais-mtp-seed DYN_AIS_MTP_SEED', TIMING_MODEL_USERS, 'text'],
  ['--ais-perf-config DYN_AIS_PERF_CONFIG', TIMING_MODEL_USERS, 'text', 'use --planner-profile-data'],
  ['--router-prefill-policy DYN_ROUTER_PREFILL_POLICY', ROUTERS, 'text'],
  ['--router-decode-policy DYN_ROUTER_DECODE_POLICY', ROUTERS, 'text'],
  ['--router-max-tree-size DYN_ROUTER_MAX_TREE_SIZE', ROUTERS, 'text', 'STATOR_INDEX_MAX_MB bounds the index'],
  [
    '--router-prune-target-ratio DYN_ROUTER_PRUNE_TARGET_RATIO',
    ROUTERS,
    'text',
    'STATOR_INDEX_MAX_MB bounds the index',
  ],
  ['--enable-session-prefix-index DYN_ENABLE_SESSION_PREFIX_INDEX', ROUTERS, 'switch'],
  ['DYN_GMS_FAILOVER_FAST_EXIT_ON_SIGTERM', ['worker'], 'switch'],
  ['DYN_GMS_FAILOVER_UNREGISTER_TIMEOUT_SECS', ['worker'], 'text'],
  ['--kv-state-endpoint DYN_KV_STATE_ENDPOINT', ['worker'], 'text'],
  ['ETCD_ENDPOINTS', CONTAINERS, 'texts', 'use --discovery-backend dynamodb or file'],
  ['ETCD_LEASE_TTL', CONTAINERS, 'text', 'use STATOR_LEASE_TTL_SECS'],
  ['ETCD_AUTH_USERNAME', CONTAINERS, 'text'],
  ['ETCD_AUTH_PASSWORD', CONTAINERS, 'text'],
  ['ETCD_AUTH_CA', CONTAINERS, 'text'],
  ['ETCD_AUTH_CLIENT_CERT', CONTAINERS, 'text'],
  ['ETCD_AUTH_CLIENT_KEY', CONTAINERS, 'text'],
  ['DYN_KUBE_DISCOVERY_MODE', CONTAINERS, 'text', 'use --discovery-backend dynamodb or file'],
  ['POD_NAME', CONTAINERS, 'text'],
  ['POD_NAMESPACE', CONTAINERS, 'text'],
  ['POD_UID', CONTAINERS, 'text'],
  ['DYN_COMPONENT', ['worker'], 'text', 'use --endpoint'],
  ['DYN_HTTP_RPC_HOST', ['worker'], 'text', 'use --request-plane tcp or nats'],
  ['DYN_TCP_RESPONSE_STREAM_HOST', ['frontend', 'grpc'], 'text', 'answers come on the connection of their request'],
  ['DYN_TCP_RESPONSE_STREAM_PORT', ['frontend', 'grpc'], 'text', 'answers come on the connection of their request'],
  ['DYN_TCP_SHRINK_MESSAGE_SIZE', ['frontend', 'grpc', 'worker', 'router'], 'text'],
  ['DYN_TCP_LISTEN_BACKLOG', ['worker', 'router'], 'text'],
  ['DYN_LOGGING_CONFIG_PATH', CONTAINERS, 'text', 'use DYN_LOG'],
  ['DYN_LOGGING_CONSOLE_FORMAT', CONTAINERS, 'text', 'use DYN_LOGGING_JSONL'],
  ['DYN_NVTX', ['worker'], 'switch'],
  ['--frontend-decoding DYN_VLLM_FRONTEND_DECODING DYN_SGL_FRONTEND_DECODING', ['worker'], 'switch'],
  ['--omni DYN_VLLM_OMNI', ['worker'], 'switch'],
  ['--stage-configs-path DYN_OMNI_STAGE_CONFIGS_PATH', ['worker'], 'text'],
  ['DYN_FORWARDPASS_METRIC_PORT', ['worker'], 'text'],
  ['--fpm-trace DYN_FPM_TRACE', ['worker'], 'switch'],
  ['DYN_FPM_OUTPUT_PATH', ['worker'], 'text'],
  ['DYN_FPM_MODE', ['worker'], 'text'],
  ['DYN_FPM_SAMPLE_INTERVAL_MS', ['worker'], 'text'],
  ['DYN_FPM_WORKER_ID', ['worker'], 'text'],
  ['DYN_FPM_GC_POLICY', ['worker'], 'text'],
  ['DYN_FPM_GC_FREEZE_INTERVAL_S', ['worker'], 'text'],
  ['--model-express-url MODEL_EXPRESS_URL', ['worker'], 'text', 'models are opened from a local folder'],
  ['--enable-rl DYN_ENABLE_RL', ['worker'], 'switch'],
  ['--custom-encoder-class DYN_CUSTOM_ENCODER_CLASS', ['worker'], 'text'],
  ['--embedding-transfer-mode DYN_VLLM_EMBEDDING_TRANSFER_MODE', ['worker'], 'text'],
  ['--embedding-worker DYN_VLLM_EMBEDDING_WORKER', ['worker'], 'switch'],
  ['--embedding-frontend-tokenization DYN_VLLM_EMBEDDING_FRONTEND_TOKENIZATION', ['worker'], 'switch'],
  ['--embedding-worker-processes DYN_VLLM_EMBEDDING_WORKER_PROCESSES', ['worker'], 'text'],
  ['--classify-worker DYN_VLLM_CLASSIFY_WORKER', ['worker'], 'switch'],
  ['--realtime DYN_VLLM_REALTIME DYN_OMNI_REALTIME', ['worker'], 'switch'],
  ['--gms-shadow-mode DYN_VLLM_GMS_SHADOW_MODE', ['worker'], 'switch'],
  ['--multimodal-embedding-cache-capacity-gb DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB', ['worker'], 'text'],
  ['--multimodal-embedding-cache-publisher DYN_MULTIMODAL_EMBEDDING_CACHE_PUBLISHER', ['worker'], 'switch'],
  ['--output-modalities DYN_OUTPUT_MODALITIES', ['worker'], 'texts'],
  ['--media-output-fs-url DYN_MEDIA_OUTPUT_FS_URL', ['worker'], 'text'],
  ['--media-output-http-url DYN_MEDIA_OUTPUT_HTTP_URL', ['worker'], 'text'],
  [
    '--benchmark-* --prefill-max-*-samples --decode-max-*-samples --prefix-max-batch-size-samples DYN_BENCHMARK_* DYN_BENCH_* DYN_PREFILL_MAX_* DYN_DECODE_MAX_* DYN_PREFIX_MAX_*',
    ['worker'],
    'family',
    'measure with a load generator',
  ],
  ['DYN_OMNI_*', ['worker'], 'family'],
  ['--http-max-keepalive DYN_HTTP_MAX_KEEPALIVE', ['worker'], 'text'],
  ['--http-pool-timeout DYN_HTTP_POOL_TIMEOUT', ['worker'], 'text'],
  ['--http-concurrency DYN_HTTP_CONCURRENCY', ['worker'], 'text'],
  [
    'DYN_MM_HTTP_* DYN_MM_IMAGE_CACHE_* DYN_MM_SHARED_IMAGE_CACHE_* DYN_MM_VIDEO_NUM_FRAMES DYN_MM_NIXL_CLEANUP_TIMEOUT_S DYN_MM_TRUST_EGRESS_PROXY',
    ['worker'],
    'family',
  ],
  ['--sglang-schedule-policy', MOCKERS, 'text'],
  ['--sglang-page-size', MOCKERS, 'text'],
  ['--sglang-max-prefill-tokens', MOCKERS, 'text'],
  ['--sglang-chunked-prefill-size', MOCKERS, 'text'],
  ['--sglang-clip-max-new-tokens', MOCKERS, 'text'],
  ['--sglang-schedule-conservativeness', MOCKERS, 'text'],
  ['--sglang-generate', ['worker'], 'switch'],
  ['--trtllm-capacity-scheduler-policy', MOCKERS, 'text'],
  ['--ais-perf-model --aic-perf-model', MOCKERS, 'switch', 'use --planner-profile-data'],
  ['--gpu-memory-utilization', MOCKERS, 'text'],
  ['--mem-fraction-static', MOCKERS, 'text'],
  ['--free-gpu-memory-fraction', MOCKERS, 'text'],
  ['--num-host-blocks', MOCKERS, 'text'],
  ['--host-offload-d2h-bandwidth-gbps', MOCKERS, 'text'],
  ['--host-offload-h2d-bandwidth-gbps', MOCKERS, 'text'],
  ['--response-replay-trace-path', ['worker'], 'text'],
  ['DYN_LORA_HOTSWAP_ENABLED', ['worker'], 'switch'],
  ['VLLM_LORA_MODULES_LOADING_TIMEOUT', ['worker'], 'text'],
];

/** Rows of "Names without effect", by setting. */
export const rowsWithoutEffect: Readonly<Record<string, Row>> = Object.fromEntries(
  NAMES.map(([names, usedBy, takes, instead]) => {
    const all = names.split(' ');
    const fields = {
      flags: all.filter((name) => name.startsWith('--')),
      env: all.filter((name) => !name.startsWith('--')),
      usedBy,
      source: '1.6.1',
      built: false,
      about: instead === undefined ? 'Has no effect.' : `Has no effect: ${instead}.`,
      ...(instead === undefined ? {} : { instead }),
    };
    return [settingNameOf(all[0] ?? ''), buildRow(TYPES[takes] as ValueType<unknown>, fields)]; // nobody reads its value
  }),
);

/** The first name in camel case, without dashes, prefix or stars. */
function settingNameOf(name: string): string {
  const words = name
    .replace(/^--(dyn-)?|^DYN_/, '')
    .replaceAll('*', 'settings')
    .toLowerCase();
  return words.replaceAll(/[-_]+(\w)/g, (_match, letter: string) => letter.toUpperCase());
}
