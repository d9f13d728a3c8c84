import { isRecord, type UnknownRecord } from '../../records/index.ts';
import { KvRouterConfigError } from '../config/kv-config.ts';

/** What the estimate needs to know of a model. Weights are counted for one layer, and in numbers, not bytes. */
export interface ModelShape {
  readonly layers: number;
  readonly hidden: number;
  readonly vocabulary: number;
  /** Of the projections around attention. */
  readonly attentionWeights: number;
  /** Multiplications for each pair of tokens that attend to each other. */
  readonly pairWidth: number;
  /** Numbers that the KV cache holds for each token. */
  readonly cacheWidth: number;
  /** Parts that the cache can be split in. */
  readonly cacheHeads: number;
  /** Feed-forward layers that every token goes through whole. */
  readonly denseLayers: number;
  readonly denseWeights: number;
  /** The layers with experts; undefined = the model has none. */
  readonly experts: ExpertShape | undefined;
  readonly weightBytes: number;
  /** Whether matrix products are 8 bits wide. */
  readonly isFp8: boolean;
}

export interface ExpertShape {
  readonly layers: number;
  readonly count: number;
  /** Experts that each token goes through. */
  readonly perToken: number;
  /** Of one expert. */
  readonly weights: number;
  /** Of what every token goes through beside its experts. */
  readonly sharedWeights: number;
}

/** Matrices of a gated feed-forward network: gate, up, down. */
const GATED = 3;
const BYTES_16_BIT = 2;
/** Bytes of a weight by `quantization_config.quant_method`; any other method is taken for 16 bits. */
const WEIGHT_BYTES: Readonly<Record<string, number>> = { fp8: 1, fbgemm_fp8: 1, awq: 0.5, gptq: 0.5, mxfp4: 0.5 };

/**
 * The shape that a model folder's config.json (Hugging Face `transformers`) describes: decoders with grouped-query or latent
 * attention, dense or with experts; of a model with media, its text part.
 * @throws KvRouterConfigError naming the field that is missing
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

/** Keys and values by way of one narrow vector a token, which is what the cache holds (DeepSeek V2, V3, Kimi K2). */
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

/** The first of `names` that is there; null and 0 stand for absent, as in the files. */
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
  throw new KvRouterConfigError('aic_model_path', '--aic-model-path: its config.json is no JSON object');
}
