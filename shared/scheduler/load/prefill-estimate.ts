import { isRecord, type UnknownRecord } from '../../records/index.ts';
import { KvRouterConfigError } from '../kv-config.ts';
import type { PrefillDurationModel } from '../types.ts';

/** Published peaks of one GPU, in units per second, dense (without structured sparsity). */
interface GpuSystem {
  /** Operations of 16-bit matrix products. */
  readonly flops: number;
  /** Operations of 8-bit matrix products; equal to `flops` if the GPU has no faster ones. */
  readonly fp8Flops: number;
  readonly memoryBytes: number;
  /** Bytes to the other GPUs of its node, in one direction. */
  readonly linkBytes: number;
}

const TERA = 1e12;

const GIGA = 1e9;

/** Names that `--aic-system` accepts, with figures from the vendor's data sheets. */
const GPU_SYSTEMS: Readonly<Record<string, GpuSystem>> = {
  a100_sxm: gpu(312, 312, 2.039, 300),
  b200_sxm: gpu(2250, 4500, 8, 900),
  b300_sxm: gpu(2250, 4500, 8, 900),
  gb200: gpu(2500, 5000, 8, 900),
  gb300: gpu(2500, 5000, 8, 900),
  h100_sxm: gpu(989, 1979, 3.35, 450),
  h200_sxm: gpu(989, 1979, 4.8, 450),
  h20_sxm: gpu(148, 296, 4, 450),
  l40s: gpu(362, 733, 0.864, 32),
};

/** Names that `--aic-backend` accepts. */
const BACKENDS: readonly string[] = ['vllm', 'sglang', 'trtllm'];
/** Share of the published peaks that engines reach: the only free parameter of the estimate. */
const COMPUTE_SHARE = 0.6;
const BANDWIDTH_SHARE = 0.8;
const BYTES_16_BIT = 2;
const MS_PER_SECOND = 1000;

export interface PrefillEstimateOptions {
  readonly backend: string;
  /** Name in `GPU_SYSTEMS`. */
  readonly system: string;
  readonly shape: ModelShape;
  readonly tpSize: number;
  /** Number of ranks that each serve requests of their own and share the experts. @default 1 */
  readonly attentionDpSize?: number | undefined;
  /**
   * Number of GPUs that each expert is split over. The estimate only checks that this and `moeEpSize` fit. @default the
   * value that follows from the other sizes
   */
  readonly moeTpSize?: number | undefined;
  /**
   * Number of groups that the experts are spread over. @default the value that follows from the other sizes; 1 if only
   * they are set
   */
  readonly moeEpSize?: number | undefined;
}

/**
 * Estimates the duration of the prefill of one prompt that runs alone, from published peaks. Each part of a layer takes
 * as long as its arithmetic or its memory traffic, whichever is longer, at a fixed share of the peak. Between GPUs each
 * layer exchanges its activations twice.
 *
 * The settings are named after NVIDIA's AIConfigurator, which answers the same question from tables measured for each
 * engine, version and GPU. The estimate leaves out differences between engines, launches and scheduling, other requests
 * of the pass, sliding windows, and feed-forward layers without a gate. So it tells how prompts compare with each
 * other, and milliseconds within a factor of about two.
 * @throws KvRouterConfigError for a name that is not known, and for sizes that do not fit together
 */
export function createPrefillEstimate(options: PrefillEstimateOptions): PrefillDurationModel {
  const { backend, system, shape } = options;
  if (!BACKENDS.includes(backend)) throw unknownName('aic_backend', backend, BACKENDS);
  const gpu = Object.hasOwn(GPU_SYSTEMS, system) ? GPU_SYSTEMS[system] : undefined;
  if (gpu === undefined) throw unknownName('aic_system', system, Object.keys(GPU_SYSTEMS));
  checkSizes(options);
  return new PrefillEstimate(shape, gpu, options.tpSize, options.attentionDpSize ?? 1);
}

function unknownName(field: string, name: string, allowed: readonly string[]): KvRouterConfigError {
  const flag = `--${field.replaceAll('_', '-')}`;
  return new KvRouterConfigError(field, `${flag} ${JSON.stringify(name)} is not known; allowed: ${allowed.join(', ')}`);
}

/** Checks that tp x attention_dp = moe_tp x moe_ep: both count the GPUs of one replica. */
function checkSizes({ shape, tpSize, attentionDpSize, moeTpSize, moeEpSize }: PrefillEstimateOptions): void {
  const given = Object.entries({
    '--aic-attention-dp-size': attentionDpSize,
    '--aic-moe-tp-size': moeTpSize,
    '--aic-moe-ep-size': moeEpSize,
  }).find(([, size]) => size !== undefined);
  if (shape.experts === undefined) {
    if (given === undefined) return;
    throw new KvRouterConfigError('aic_moe_tp_size', `${given[0]} is for models with experts, and this model has none`);
  }
  const gpus = tpSize * (attentionDpSize ?? 1);
  const ep = moeEpSize ?? (moeTpSize === undefined ? 1 : gpus / moeTpSize);
  const tp = moeTpSize ?? gpus / ep;
  if (Number.isInteger(tp) && Number.isInteger(ep) && tp * ep === gpus) return;
  throw new KvRouterConfigError(
    'aic_moe_tp_size',
    `--aic-tp-size ${tpSize} x --aic-attention-dp-size ${attentionDpSize ?? 1} must equal ` +
      `--aic-moe-tp-size ${moeTpSize ?? 'unset'} x --aic-moe-ep-size ${moeEpSize ?? 'unset'}`,
  );
}

class PrefillEstimate implements PrefillDurationModel {
  readonly #shape: ModelShape;
  readonly #tp: number;
  readonly #dp: number;
  readonly #flops: number;
  readonly #fp16Flops: number;
  readonly #memoryBytes: number;
  readonly #linkBytes: number;

  constructor(shape: ModelShape, gpu: GpuSystem, tpSize: number, attentionDpSize: number) {
    this.#shape = shape;
    this.#tp = tpSize;
    this.#dp = attentionDpSize;
    this.#flops = COMPUTE_SHARE * (shape.isFp8 ? gpu.fp8Flops : gpu.flops);
    this.#fp16Flops = COMPUTE_SHARE * gpu.flops;
    this.#memoryBytes = BANDWIDTH_SHARE * gpu.memoryBytes;
    this.#linkBytes = BANDWIDTH_SHARE * gpu.linkBytes;
  }

  durationMs(uncachedTokens: number, cachedTokens: number): number {
    if (uncachedTokens <= 0) return 0;
    const { layers, hidden, vocabulary, attentionWeights, denseLayers, denseWeights } = this.#shape;
    const seconds =
      layers * (this.#product(uncachedTokens, attentionWeights) + this.#attention(uncachedTokens, cachedTokens)) +
      denseLayers * this.#product(uncachedTokens, denseWeights) +
      this.#experts(uncachedTokens) +
      this.#product(1, hidden * vocabulary) + // only the last token needs logits
      layers * (this.#exchange(uncachedTokens, this.#tp) + this.#exchange(uncachedTokens, this.#tp * this.#dp));
    return seconds * MS_PER_SECOND;
  }

  /** Returns the time of `tokens` times a matrix of `weights` numbers, split over the tensor-parallel GPUs. */
  #product(tokens: number, weights: number): number {
    const share = weights / this.#tp;
    return Math.max((2 * tokens * share) / this.#flops, (share * this.#shape.weightBytes) / this.#memoryBytes);
  }

  /** Returns the time of attention: every new token attends to all tokens before it and to itself. */
  #attention(tokens: number, cachedTokens: number): number {
    const { pairWidth, cacheWidth, cacheHeads } = this.#shape;
    const pairs = tokens * cachedTokens + (tokens * (tokens + 1)) / 2;
    const bytes = (BYTES_16_BIT * cacheWidth * (cachedTokens + tokens)) / Math.min(this.#tp, cacheHeads);
    return Math.max((2 * pairs * pairWidth) / this.#tp / this.#fp16Flops, bytes / this.#memoryBytes);
  }

  /**
   * Returns the time of the experts. They are spread over all GPUs, which compute for the requests of all ranks at
   * once, so each rank has an equal share of the work.
   */
  #experts(tokens: number): number {
    const { experts, weightBytes } = this.#shape;
    if (experts === undefined) return 0;
    const { layers, count, perToken, weights, sharedWeights } = experts;
    const gpus = this.#tp * this.#dp;
    const together = tokens * this.#dp;
    const touched = count * (1 - (1 - perToken / count) ** together);
    const computed = (2 * together * perToken * weights) / gpus / this.#flops;
    const routed = Math.max(computed, (touched * weights * weightBytes) / gpus / this.#memoryBytes);
    return layers * (routed + this.#product(tokens, sharedWeights));
  }

  /** Returns the time to sum the activations of `tokens` over `gpus` GPUs in a ring. */
  #exchange(tokens: number, gpus: number): number {
    const bytes = BYTES_16_BIT * tokens * this.#shape.hidden;
    return (2 * bytes * (gpus - 1)) / gpus / this.#linkBytes;
  }
}

function gpu(teraFlops: number, fp8TeraFlops: number, memoryTeraBytes: number, linkGigaBytes: number): GpuSystem {
  return {
    flops: teraFlops * TERA,
    fp8Flops: fp8TeraFlops * TERA,
    memoryBytes: memoryTeraBytes * TERA,
    linkBytes: linkGigaBytes * GIGA,
  };
}

/** Sizes of a model that the estimate uses. Weights are counted for one layer, and as numbers, not bytes. */
export interface ModelShape {
  readonly layers: number;
  readonly hidden: number;
  readonly vocabulary: number;
  /** Weights of the projections around attention. */
  readonly attentionWeights: number;
  /** Multiplications for each pair of tokens that attend to each other. */
  readonly pairWidth: number;
  /** Numbers that the KV cache holds for each token. */
  readonly cacheWidth: number;
  /** Number of parts that the cache can be split into. */
  readonly cacheHeads: number;
  /** Number of feed-forward layers that every token passes as a whole. */
  readonly denseLayers: number;
  readonly denseWeights: number;
  /** Layers with experts; undefined = the model has none. */
  readonly experts: ExpertShape | undefined;
  readonly weightBytes: number;
  /** Whether matrix products are 8 bits wide. */
  readonly isFp8: boolean;
}

export interface ExpertShape {
  readonly layers: number;
  readonly count: number;
  /** Number of experts that each token passes. */
  readonly perToken: number;
  /** Weights of one expert. */
  readonly weights: number;
  /** Weights that every token passes in addition to its experts. */
  readonly sharedWeights: number;
}

/** Matrices of a gated feed-forward network: gate, up, down. */
const GATED = 3;
/** Bytes of a weight by `quantization_config.quant_method`. Any other method counts as 16 bits. */
const WEIGHT_BYTES: Readonly<Record<string, number>> = { fp8: 1, fbgemm_fp8: 1, awq: 0.5, gptq: 0.5, mxfp4: 0.5 };

/**
 * Reads the shape that a model folder's config.json (Hugging Face `transformers`) describes. It covers decoders with
 * grouped-query or latent attention, dense or with experts, and the text part of a model with media.
 * @throws KvRouterConfigError naming the missing field
 */
export function readModelShape(json: unknown): ModelShape {
  const outer = fieldsOf(json);
  const config = outer.text_config === undefined ? outer : { ...outer, ...fieldsOf(outer.text_config) };
  const layers = read(config, 'num_hidden_layers');
  const hidden = read(config, 'hidden_size', 'n_embd');
  const experts = expertsOf(config, layers, hidden);
  const denseLayers = layers - (experts?.layers ?? 0);
  const method = fieldsOf(config.quantization_config ?? {}).quant_method;
  const weightBytes = typeof method === 'string' ? (WEIGHT_BYTES[method] ?? BYTES_16_BIT) : BYTES_16_BIT;
  return {
    layers,
    hidden,
    vocabulary: read(config, 'vocab_size'),
    ...(config.kv_lora_rank == null ? groupedAttention(config, hidden) : latentAttention(config, hidden)),
    denseLayers,
    denseWeights: denseLayers === 0 ? 0 : GATED * hidden * read(config, 'intermediate_size'),
    experts,
    weightBytes,
    isFp8: weightBytes === 1,
  };
}

type Attention = Pick<ModelShape, 'attentionWeights' | 'pairWidth' | 'cacheWidth' | 'cacheHeads'>;

function groupedAttention(config: UnknownRecord, hidden: number): Attention {
  const heads = read(config, 'num_attention_heads');
  const cacheHeads = find(config, 'num_key_value_heads') ?? heads;
  const width = find(config, 'head_dim') ?? hidden / heads;
  return {
    attentionWeights: hidden * width * 2 * (heads + cacheHeads), // queries and output; keys and values
    pairWidth: 2 * heads * width,
    cacheWidth: 2 * cacheHeads * width,
    cacheHeads,
  };
}

/**
 * Returns the sizes of latent attention (DeepSeek V2, V3, Kimi K2). Keys and values come from one narrow vector for
 * each token, and the cache holds that vector.
 */
function latentAttention(config: UnknownRecord, hidden: number): Attention {
  const heads = read(config, 'num_attention_heads');
  const rank = read(config, 'kv_lora_rank');
  const rotary = read(config, 'qk_rope_head_dim');
  const keyWidth = read(config, 'qk_nope_head_dim') + rotary;
  const valueWidth = read(config, 'v_head_dim');
  const queryRank = find(config, 'q_lora_rank');
  const queries = queryRank === undefined ? hidden * heads * keyWidth : queryRank * (hidden + heads * keyWidth);
  const keysAndValues = hidden * (rank + rotary) + rank * heads * (keyWidth - rotary + valueWidth);
  return {
    attentionWeights: queries + keysAndValues + heads * valueWidth * hidden,
    pairWidth: heads * (keyWidth + valueWidth),
    cacheWidth: rank + rotary,
    cacheHeads: 1,
  };
}

function expertsOf(config: UnknownRecord, layers: number, hidden: number): ExpertShape | undefined {
  const count = find(config, 'n_routed_experts', 'num_local_experts', 'num_experts');
  if (count === undefined) return undefined;
  const width = read(config, 'moe_intermediate_size', 'intermediate_size');
  const sharedWidth =
    find(config, 'shared_expert_intermediate_size') ?? (find(config, 'n_shared_experts') ?? 0) * width;
  return {
    layers: Math.max(0, layers - (find(config, 'first_k_dense_replace') ?? 0)),
    count,
    perToken: Math.min(count, read(config, 'num_experts_per_tok', 'experts_per_token')),
    weights: GATED * hidden * width,
    sharedWeights: GATED * hidden * sharedWidth,
  };
}

/** Returns the first present field of `names`. Null and 0 mean absent, as in the files. */
function find(config: UnknownRecord, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = config[name];
    if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value;
  }
  return undefined;
}

function read(config: UnknownRecord, ...names: readonly [string, ...string[]]): number {
  const value = find(config, ...names);
  if (value !== undefined) return value;
  throw new KvRouterConfigError('aic_model_path', `--aic-model-path: its config.json has no ${names[0]}`);
}

function fieldsOf(value: unknown): UnknownRecord {
  if (isRecord(value)) return value;
  throw new KvRouterConfigError('aic_model_path', '--aic-model-path: its config.json is not a JSON object');
}
