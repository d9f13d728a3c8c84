import { KvRouterConfigError } from '../config/kv-config.ts';
import type { PrefillDurationModel } from '../load/prefill-duration.ts';
import type { ModelShape } from './model-shape.ts';

/** Published peaks of one GPU, in units a second, dense (without structured sparsity). */
interface GpuSystem {
  /** 16-bit matrix products. */
  readonly flops: number;
  /** 8-bit matrix products; the same as `flops` where the GPU has none of its own. */
  readonly fp8Flops: number;
  readonly memoryBytes: number;
  /** To the other GPUs of its node, one direction. */
  readonly linkBytes: number;
}

const TERA = 1e12;

const GIGA = 1e9;

/** What `--aic-system` may name, by the vendor's data sheets. */
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

/** What `--aic-backend` may name. */
const BACKENDS: readonly string[] = ['vllm', 'sglang', 'trtllm'];
/** Share of the published peaks that engines come to: the one free choice of the estimate. */
const COMPUTE_SHARE = 0.6;
const BANDWIDTH_SHARE = 0.8;
const BYTES_16_BIT = 2;
const MS_PER_SECOND = 1000;

export interface PrefillEstimateOptions {
  readonly backend: string;
  /** Name of `GPU_SYSTEMS`. */
  readonly system: string;
  readonly shape: ModelShape;
  readonly tpSize: number;
  /** Ranks that each serve requests of their own and share the experts. @default 1 */
  readonly attentionDpSize?: number | undefined;
  /** How each expert and all experts are split; the estimate only sees to it that they fit. @default what the others leave */
  readonly moeTpSize?: number | undefined;
  /** @default what the others leave; 1 where only they are set */
  readonly moeEpSize?: number | undefined;
}

/**
 * Estimates how long one prompt takes to prefill, alone, from published peaks: each part of a layer takes as long as its
 * arithmetic or its memory traffic, whichever is longer, at a fixed share of the peak; between GPUs each layer exchanges its
 * activations twice. It is an estimate: NVIDIA's AIConfigurator, which the settings are named after, looks the same
 * question up in tables measured for each engine, version and GPU. Left out here: how engines differ, launches and
 * scheduling, other requests of the pass, sliding windows, feed-forward layers without a gate. So it tells how prompts
 * compare with each other, and milliseconds within a factor of about two.
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

/** tp x attention_dp = moe_tp x moe_ep: both count the GPUs of one replica. */
function checkSizes({ shape, tpSize, attentionDpSize, moeTpSize, moeEpSize }: PrefillEstimateOptions): void {
  const given = Object.entries({
    '--aic-attention-dp-size': attentionDpSize,
    '--aic-moe-tp-size': moeTpSize,
    '--aic-moe-ep-size': moeEpSize,
  }).find(([, size]) => size !== undefined);
  if (shape.experts === undefined) {
    if (given === undefined) return;
    throw new KvRouterConfigError('aic_moe_tp_size', `${given[0]} is for models with experts: this one has none`);
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
      this.#product(1, hidden * vocabulary) + // only the last token is sampled from
      layers * (this.#exchange(uncachedTokens, this.#tp) + this.#exchange(uncachedTokens, this.#tp * this.#dp));
    return seconds * MS_PER_SECOND;
  }

  /** `tokens` times a matrix of so many weights, split over the tensor-parallel GPUs. */
  #product(tokens: number, weights: number): number {
    const share = weights / this.#tp;
    return Math.max((2 * tokens * share) / this.#flops, (share * this.#shape.weightBytes) / this.#memoryBytes);
  }

  /** Every new token against all before it and itself. */
  #attention(tokens: number, cachedTokens: number): number {
    const { pairWidth, cacheWidth, cacheHeads } = this.#shape;
    const pairs = tokens * cachedTokens + (tokens * (tokens + 1)) / 2;
    const bytes = (BYTES_16_BIT * cacheWidth * (cachedTokens + tokens)) / Math.min(this.#tp, cacheHeads);
    return Math.max((2 * pairs * pairWidth) / this.#tp / this.#fp16Flops, bytes / this.#memoryBytes);
  }

  /** The experts are spread over all GPUs, which compute for the requests of all ranks at once: each rank has as much to do. */
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

  /** Sums the activations of `tokens` over so many GPUs, as a ring does. */
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
