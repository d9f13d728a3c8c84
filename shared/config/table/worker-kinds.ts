import { worker } from '../row.ts';

/** Returns the row for an argument of vLLM-Omni that a variable gives; as a flag, it goes to the engine anyway. */
const omniArgument = (name: string, about: string) =>
  worker.text({
    names: name,
    allowed: 'as the engine takes it; true and false for a switch',
    note: 'with --omni',
    about,
  });

/** Rows of "Kinds of workers". */
export const workerKindRows = {
  embeddingWorker: worker.bool({
    names: '--embedding-worker DYN_VLLM_EMBEDDING_WORKER',
    note: '--engine vllm, sglang or openai; --disaggregation-mode agg',
    about:
      'Serves only embeddings; an engine that the worker starts gets the flag for it (--runner pooling, --is-embedding).',
  }),
  embeddingFrontendTokenization: worker.bool({
    names: '--embedding-frontend-tokenization DYN_VLLM_EMBEDDING_FRONTEND_TOKENIZATION',
    note: 'needs --embedding-worker and the files of the model',
    about: 'Lets frontends tokenize the inputs of embeddings, one at a time; otherwise the engine does.',
  }),
  embeddingWorkerProcesses: worker.int({
    names: '--embedding-worker-processes DYN_VLLM_EMBEDDING_WORKER_PROCESSES',
    range: { min: 1 },
    default: 1,
    note: 'only 1',
    about: 'Worker processes of one engine. For more, start further workers with --engine-url.',
  }),
  omni: worker.bool({
    names: '--omni DYN_VLLM_OMNI',
    note: '--engine vllm',
    source: 'Dynamo (vLLM page)',
    about: 'Drives vLLM-Omni: pictures, videos, and chats that hold media.',
  }),
  outputModalities: worker.choices({
    names: '--output-modalities DYN_OUTPUT_MODALITIES',
    values: ['text', 'image', 'video'],
    default: ['text'],
    note: 'with --omni',
    about: 'What the model makes, which decides its routes: text = chats; image = pictures and chats; video = videos.',
  }),
  stageConfigsPath: worker.file({
    names: '--stage-configs-path DYN_OMNI_STAGE_CONFIGS_PATH',
    allowed: 'a YAML file',
    note: 'with --omni',
    about: 'Stages of the pipeline, for releases of the engine that read such a file; later ones have --deploy-config.',
  }),
  omniDefaultVideoFps: worker.int({
    names: 'DYN_OMNI_DEFAULT_VIDEO_FPS',
    range: { min: 1 },
    defaultText: "engine's",
    note: 'with --omni',
    about: 'Pictures per second of a video whose request names no fps.',
  }),
  omniEnableLayerwiseOffload: omniArgument('DYN_OMNI_ENABLE_LAYERWISE_OFFLOAD', 'Offloads layer by layer.'),
  omniVaeUseSlicing: omniArgument('DYN_OMNI_VAE_USE_SLICING', 'Decodes pictures in slices.'),
  omniVaeUseTiling: omniArgument('DYN_OMNI_VAE_USE_TILING', 'Decodes pictures in tiles.'),
  omniBoundaryRatio: omniArgument(
    'DYN_OMNI_BOUNDARY_RATIO',
    'Point at which one transformer takes over from the other.',
  ),
  omniFlowShift: omniArgument('DYN_OMNI_FLOW_SHIFT', 'Shift of the scheduler.'),
  omniCacheBackend: omniArgument('DYN_OMNI_CACHE_BACKEND', 'Cache between steps: cache_dit or tea_cache.'),
  omniCacheConfig: omniArgument('DYN_OMNI_CACHE_CONFIG', 'Settings of that cache, JSON.'),
  omniEnableCacheDitSummary: omniArgument('DYN_OMNI_ENABLE_CACHE_DIT_SUMMARY', 'Logs what that cache saved.'),
  omniEnableCpuOffload: omniArgument('DYN_OMNI_ENABLE_CPU_OFFLOAD', 'Offloads the model to the CPU.'),
  omniTaskType: omniArgument('DYN_OMNI_TASK_TYPE', 'Task of a model that has several.'),
  omniLoraPath: omniArgument('DYN_OMNI_LORA_PATH', 'Adapters that are fused at the start, split at spaces.'),
  omniDiffusionAttentionBackend: omniArgument('DYN_OMNI_DIFFUSION_ATTENTION_BACKEND', 'Attention of diffusion.'),
  omniFastvideoVsaTopk: omniArgument('DYN_OMNI_FASTVIDEO_VSA_TOPK', 'Blocks that sparse attention keeps.'),
  omniEnforceEager: omniArgument('DYN_OMNI_ENFORCE_EAGER', 'Compiles nothing.'),
  omniUlyssesDegree: omniArgument('DYN_OMNI_ULYSSES_DEGREE', 'GPUs of Ulysses parallelism.'),
  omniUlyssesA2aPermute: omniArgument('DYN_OMNI_ULYSSES_A2A_PERMUTE', 'Exchanges of Ulysses without a copy.'),
  omniRingDegree: omniArgument('DYN_OMNI_RING_DEGREE', 'GPUs of ring parallelism.'),
  omniAllgatherDegree: omniArgument('DYN_OMNI_ALLGATHER_DEGREE', 'GPUs of all-gather parallelism.'),
  omniCfgParallelSize: omniArgument('DYN_OMNI_CFG_PARALLEL_SIZE', 'GPUs of classifier-free guidance.'),
  omniVaePatchParallelSize: omniArgument('DYN_OMNI_VAE_PATCH_PARALLEL_SIZE', 'GPUs that decode one picture.'),
  omniTextEncoderTpSize: omniArgument('DYN_OMNI_TEXT_ENCODER_TP_SIZE', 'GPUs of the text encoder.'),
  omniVaeParallelMode: omniArgument(
    'DYN_OMNI_VAE_PARALLEL_MODE',
    'How pictures are divided among the GPUs that decode them.',
  ),
  omniUseHsdp: omniArgument('DYN_OMNI_USE_HSDP', 'Shards weights.'),
  omniHsdpShardSize: omniArgument('DYN_OMNI_HSDP_SHARD_SIZE', 'GPUs of a shard group.'),
  omniHsdpReplicateSize: omniArgument('DYN_OMNI_HSDP_REPLICATE_SIZE', 'Copies of the shard group.'),
};
