import { containers, edges, mockers, type Process, routers, timingModelUsers, workers } from './row.ts';

/** Settings of one thing that this version does not do. */
export interface Unbuilt {
  /** Name of the thing. */
  readonly about: string;
  readonly usedBy: readonly Process[];
  /** Flags (for a switch, the `--no-` form too) and variables, separated by blanks; `*` stands for a part of a name. */
  readonly names: string;
  /** Replacement that does the same, or most of it. */
  readonly instead?: string;
}

/**
 * Names that are known and do nothing, so that the command lines and environments of Dynamo work unchanged. To build
 * one, remove its names here and add a row to the table.
 */
export const UNBUILT: readonly Unbuilt[] = [
  {
    about: 'routes of classification, reranking, pooling, files and batches',
    usedBy: edges.usedBy,
    names:
      'DYN_HTTP_SVC_CLASSIFY_PATH DYN_HTTP_SVC_RERANK_PATH DYN_HTTP_SVC_POOLING_PATH DYN_HTTP_SVC_FILES_PATH DYN_HTTP_SVC_BATCHES_PATH',
  },
  {
    about: 'routes from modules',
    usedBy: ['frontend'],
    names: '--frontend-route-extension DYN_FRONTEND_ROUTE_EXTENSIONS',
    instead: 'your own program around createFrontend of the package',
  },
  {
    about: 'limit of file descriptors and allocator of the process',
    usedBy: ['frontend'],
    names: 'DYN_FRONTEND_FD_LIMIT_TARGET DYN_FRONTEND_JEMALLOC',
    instead: 'ulimit -n and NODE_OPTIONS',
  },
  {
    about: 'code shipped with a model, which tokenizers here never run',
    usedBy: ['frontend', 'worker'],
    names: '--trust-remote-code DYN_TRUST_REMOTE_CODE',
  },
  {
    about: 'guided decoding by structural tags',
    usedBy: workers.usedBy,
    names:
      '--dyn-structural-tag DYN_STRUCTURAL_TAG --dyn-enable-structural-tag DYN_ENABLE_STRUCTURAL_TAG ' +
      '--dyn-structural-tag-scope DYN_STRUCTURAL_TAG_SCOPE --dyn-structural-tag-schema DYN_STRUCTURAL_TAG_SCHEMA',
  },
  {
    about: 'speculative decoding and whole configurations in the timing model of the router',
    usedBy: timingModelUsers.usedBy,
    names:
      '--aic-nextn --ais-nextn DYN_AIS_NEXTN --aic-nextn-accept-rates --ais-nextn-accept-rates DYN_AIS_NEXTN_ACCEPT_RATES ' +
      '--aic-mtp-seed --ais-mtp-seed DYN_AIS_MTP_SEED --ais-perf-config DYN_AIS_PERF_CONFIG',
  },
  {
    about: 'separate policies of the prefill and the decode pool',
    usedBy: routers.usedBy,
    names: '--router-prefill-policy DYN_ROUTER_PREFILL_POLICY --router-decode-policy DYN_ROUTER_DECODE_POLICY',
  },
  {
    about: 'bounds of the predicted tree',
    usedBy: routers.usedBy,
    names: '--router-max-tree-size DYN_ROUTER_MAX_TREE_SIZE --router-prune-target-ratio DYN_ROUTER_PRUNE_TARGET_RATIO',
    instead: 'STATOR_INDEX_MAX_MB',
  },
  {
    about: 'an index of session prefixes',
    usedBy: routers.usedBy,
    names: '--enable-session-prefix-index DYN_ENABLE_SESSION_PREFIX_INDEX',
  },
  {
    about: 'buffers of the request plane, and an address of a plane that Dynamo has removed',
    usedBy: containers.usedBy,
    names: 'DYN_HTTP_RPC_HOST DYN_TCP_SHRINK_MESSAGE_SIZE DYN_TCP_LISTEN_BACKLOG',
  },
  {
    about: 'logging configuration by file',
    usedBy: containers.usedBy,
    names: 'DYN_LOGGING_CONFIG_PATH DYN_LOGGING_CONSOLE_FORMAT',
    instead: 'DYN_LOG and DYN_LOGGING_JSONL',
  },
  {
    about: 'names that a Kubernetes operator assigns',
    usedBy: ['worker'],
    names: 'DYN_COMPONENT DYN_PARENT_DGD_K8S_NAME DYN_PARENT_DGD_K8S_NAMESPACE',
    instead: '--endpoint',
  },
  {
    about: 'standby and fail-over engines',
    usedBy: ['worker'],
    names:
      '--gms-shadow-mode DYN_VLLM_GMS_SHADOW_MODE DYN_GMS_FAILOVER_FAST_EXIT_ON_SIGTERM DYN_GMS_FAILOVER_UNREGISTER_TIMEOUT_SECS',
  },
  {
    about: 'KV event state that another endpoint owns',
    usedBy: ['worker'],
    names: '--kv-state-endpoint DYN_KV_STATE_ENDPOINT',
  },
  {
    about: 'workers for classification and reinforcement learning',
    usedBy: ['worker'],
    names: '--classify-worker DYN_VLLM_CLASSIFY_WORKER --enable-rl DYN_ENABLE_RL',
  },
  {
    about: 'speech, realtime, and variables of vLLM-Omni that the table does not list',
    usedBy: ['worker'],
    names: '--realtime DYN_VLLM_REALTIME DYN_OMNI_*',
  },
  {
    about: 'a store of generated media',
    usedBy: ['worker'],
    names: '--media-output-fs-url DYN_MEDIA_OUTPUT_FS_URL --media-output-http-url DYN_MEDIA_OUTPUT_HTTP_URL',
    instead: 'response_format b64_json, which is the default',
  },
  {
    about: 'details of reading and encoding media',
    usedBy: ['worker'],
    names:
      '--frontend-decoding DYN_VLLM_FRONTEND_DECODING DYN_SGL_FRONTEND_DECODING --custom-encoder-class DYN_CUSTOM_ENCODER_CLASS ' +
      '--embedding-transfer-mode DYN_VLLM_EMBEDDING_TRANSFER_MODE ' +
      '--multimodal-embedding-cache-capacity-gb DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB ' +
      '--multimodal-embedding-cache-publisher DYN_MULTIMODAL_EMBEDDING_CACHE_PUBLISHER ' +
      '--http-max-keepalive DYN_HTTP_MAX_KEEPALIVE --http-pool-timeout DYN_HTTP_POOL_TIMEOUT ' +
      '--http-concurrency DYN_HTTP_CONCURRENCY DYN_MM_HTTP_* DYN_MM_IMAGE_CACHE_* DYN_MM_SHARED_IMAGE_CACHE_* ' +
      'DYN_MM_VIDEO_NUM_FRAMES DYN_MM_NIXL_CLEANUP_TIMEOUT_S DYN_MM_TRUST_EGRESS_PROXY',
  },
  {
    about: 'forward-pass metrics and profiler ranges, which stock engines do not provide',
    usedBy: ['worker'],
    names:
      'DYN_FORWARDPASS_METRIC_PORT --fpm-trace DYN_FPM_TRACE DYN_FPM_OUTPUT_PATH DYN_FPM_MODE DYN_FPM_SAMPLE_INTERVAL_MS ' +
      'DYN_FPM_WORKER_ID DYN_FPM_GC_POLICY DYN_FPM_GC_FREEZE_INTERVAL_S DYN_NVTX',
  },
  {
    about: 'self-benchmark of an engine',
    usedBy: ['worker'],
    names:
      '--benchmark-* --prefill-max-*-samples --decode-max-*-samples --prefix-max-batch-size-samples ' +
      'DYN_BENCHMARK_* DYN_BENCH_* DYN_PREFILL_MAX_* DYN_DECODE_MAX_* DYN_PREFIX_MAX_*',
    instead: 'a load generator',
  },
  {
    about: 'download of models through ModelExpress',
    usedBy: ['worker'],
    names: '--model-express-url MODEL_EXPRESS_URL',
    instead: '--model-path ORG/NAME, which asks the Hugging Face Hub',
  },
  {
    about: 'replacing a loaded adapter in place, and a time limit of loading one',
    usedBy: ['worker'],
    names: 'DYN_LORA_HOTSWAP_ENABLED VLLM_LORA_MODULES_LOADING_TIMEOUT',
  },
  {
    about: 'native SGLang requests and answers from a trace',
    usedBy: ['worker'],
    names: '--sglang-generate --response-replay-trace-path',
  },
  {
    about: 'scheduling details of imitated engines',
    usedBy: mockers.usedBy,
    names:
      '--sglang-schedule-policy --sglang-page-size --sglang-max-prefill-tokens --sglang-chunked-prefill-size ' +
      '--sglang-clip-max-new-tokens --sglang-schedule-conservativeness --trtllm-capacity-scheduler-policy',
  },
  {
    about: 'an external timing model of the mocker',
    usedBy: mockers.usedBy,
    names: '--ais-perf-model --aic-perf-model',
    instead: '--planner-profile-data',
  },
  {
    about: 'KV capacity of the mocker from a share of memory',
    usedBy: mockers.usedBy,
    names: '--gpu-memory-utilization --mem-fraction-static --free-gpu-memory-fraction',
    instead: '--num-gpu-blocks-override; in stator simulate --num-gpu-blocks',
  },
  {
    about: 'a host tier of the mocker',
    usedBy: mockers.usedBy,
    names: '--num-host-blocks --host-offload-d2h-bandwidth-gbps --host-offload-h2d-bandwidth-gbps',
  },
  {
    about: 'variables of the planner that the table does not list',
    usedBy: ['function', 'local', 'planner'],
    names: 'DYN_PLANNER_*',
  },
];

const BY_NAME: ReadonlyMap<string, Unbuilt> = new Map(
  UNBUILT.flatMap((unbuilt) => unbuilt.names.split(' ').map((name) => [name, unbuilt])),
);
const PATTERNS = [...BY_NAME].flatMap(([name, unbuilt]) =>
  name.includes('*') ? [{ matches: new RegExp(`^${name.replaceAll('*', '[\\w-]+')}$`), unbuilt }] : [],
);

/** Returns the unbuilt thing that a flag or variable outside the table belongs to. */
export function findUnbuilt(name: string): Unbuilt | undefined {
  const known = BY_NAME.get(name) ?? PATTERNS.find(({ matches }) => matches.test(name))?.unbuilt;
  return known === undefined && name.startsWith('--no-') ? findUnbuilt(`--${name.slice('--no-'.length)}`) : known;
}

/** Returns the names without `*` that `process` knows. */
export function unbuiltNames(process: Process): readonly string[] {
  return [...BY_NAME].flatMap(([name, { usedBy }]) => (usedBy.includes(process) && !name.includes('*') ? [name] : []));
}

/**
 * Names of older releases that would change what a process does, and therefore are not ignored, with what to use
 * instead.
 */
export const REFUSED_NAMES: Readonly<Record<string, string>> = {
  '--static-endpoint':
    'is not accepted: discovery finds the workers, on one machine without a server (--discovery-backend file), and ' +
    '--namespace chooses among them; --router-mode direct sends a request to the worker that it names, and excludes KV routing, as ' +
    '--static-endpoint did',
};

/** Returns why a known name is refused; undefined for others. */
export function refusalOf(name: string): string | undefined {
  return Object.hasOwn(REFUSED_NAMES, name) ? `${name} ${REFUSED_NAMES[name]}` : undefined;
}

/** Returns the warning that `name` was given. */
export function sayUnbuilt(name: string, { about, instead }: Unbuilt): string {
  const hint = instead === undefined ? '' : `: use ${instead}`;
  return `${name} is accepted, but does nothing in this version (${about})${hint}`;
}
