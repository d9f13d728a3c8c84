import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createPrefillEstimate, readModelShape } from '../../../../shared/scheduler/index.ts';
import type { ModelShape, PrefillEstimateOptions } from '../../../../shared/scheduler/load/prefill-estimate.ts';

function configOf(model: string): Record<string, unknown> {
  const path = new URL(`../../../fixtures/router/models/${model}/config.json`, import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8'));
}

function estimate(model: string, more: Partial<PrefillEstimateOptions> = {}) {
  const shape = readModelShape(configOf(model));
  return createPrefillEstimate({ backend: 'vllm', system: 'h100_sxm', shape, tpSize: 1, ...more });
}

/** Weights of the whole model, embeddings and output matrix included. */
function weightsOf({ layers, attentionWeights, denseLayers, denseWeights, experts, hidden, vocabulary }: ModelShape) {
  const perLayer = experts === undefined ? 0 : experts.count * experts.weights + experts.sharedWeights;
  return (
    layers * attentionWeights + denseLayers * denseWeights + (experts?.layers ?? 0) * perLayer + 2 * hidden * vocabulary
  );
}

describe('the shape of a model', () => {
  it.each([
    ['llama-3.1-8b', 8.03],
    ['mixtral-8x7b', 46.7],
    ['deepseek-v3', 671],
  ] as const)('has all weights of %s: %d billion', (model, billions) => {
    expect(weightsOf(readModelShape(configOf(model))) / 1e9 / billions).toBeCloseTo(1, 2);
  });

  it('is that of the text part of a model with media', () => {
    const { vocab_size: vocabulary, ...text } = configOf('llama-3.1-8b');
    const nested = { model_type: 'llava', vocab_size: vocabulary, text_config: text };
    expect(readModelShape(nested)).toEqual(readModelShape(configOf('llama-3.1-8b')));
  });

  it.each(['num_hidden_layers', 'hidden_size', 'num_attention_heads', 'intermediate_size', 'vocab_size'])(
    'needs %s',
    (field) => {
      const { [field]: _, ...rest } = configOf('llama-3.1-8b');
      expect(() => readModelShape(rest)).toThrow(`--aic-model-path: its config.json has no ${field}`);
    },
  );

  it('cannot be read from what is no object', () => {
    expect(() => readModelShape([])).toThrow('its config.json is not a JSON object');
  });
});

describe('an estimated prefill', () => {
  // By hand: 1000 tokens, 32 layers, 6.98 G weights in products; 4096-wide attention over 500,500 pairs; the output matrix.
  it('takes its arithmetic at 60 % of the published peak', () => {
    const products = 2 * 1000 * 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14_336);
    const pairs = 2 * ((1000 * 1001) / 2) * 2 * 4096 * 32;
    const output = (4096 * 128_256 * 2) / (0.8 * 3.35e12); // one token: the matrix is read, there is little to multiply
    const seconds = (products + pairs) / (0.6 * 989e12) + output;
    expect(estimate('llama-3.1-8b').durationMs(1000, 0)).toBeCloseTo(1000 * seconds, 6);
  });

  it('takes the reading of all weights when there is next to nothing to compute', () => {
    const weights = weightsOf(readModelShape(configOf('llama-3.1-8b'))) - 4096 * 128_256; // embeddings are looked up
    const floorMs = (1000 * 2 * weights) / (0.8 * 3.35e12);
    expect(estimate('llama-3.1-8b').durationMs(1, 0)! / floorMs).toBeCloseTo(1, 3);
    const moreMemory = estimate('llama-3.1-8b', { system: 'h200_sxm' }).durationMs(1, 0)!;
    expect(moreMemory / floorMs).toBeCloseTo(3.35 / 4.8, 3);
  });

  it('takes nothing for nothing, longer for more, and longer after a cached prefix', () => {
    const model = estimate('llama-3.1-8b');
    expect(model.durationMs(0, 4096)).toBe(0);
    let before = 0;
    for (const tokens of [1, 256, 1024, 8192, 65_536]) {
      const ms = model.durationMs(tokens, 0)!;
      expect(ms).toBeGreaterThan(before);
      expect(model.durationMs(tokens, 8192)!).toBeGreaterThan(ms);
      before = ms;
    }
    expect(model.durationMs(8192, 8192)!).toBeLessThan(model.durationMs(16_384, 0)!);
  });

  it('gets shorter with more GPUs, by less than their number', () => {
    const one = estimate('llama-3.1-8b').durationMs(8192, 0)!;
    const four = estimate('llama-3.1-8b', { tpSize: 4 }).durationMs(8192, 0)!;
    expect(one / four).toBeGreaterThan(3);
    expect(one / four).toBeLessThan(4);
  });

  it('computes only the experts that a token goes through', () => {
    const { experts, ...shape } = readModelShape(configOf('mixtral-8x7b'));
    const two = { ...shape, denseLayers: 32, denseWeights: 2 * experts!.weights, experts: undefined };
    const dense = createPrefillEstimate({ backend: 'vllm', system: 'h100_sxm', shape: two, tpSize: 1 });
    expect(estimate('mixtral-8x7b').durationMs(16_384, 0)).toBeCloseTo(dense.durationMs(16_384, 0)!, 6);
  });

  it('is that of one rank where attention is data-parallel: no other GPU helps with it', () => {
    const shared = estimate('deepseek-v3', { tpSize: 8 }).durationMs(8192, 0)!;
    const apart = estimate('deepseek-v3', { tpSize: 1, attentionDpSize: 8, moeTpSize: 1, moeEpSize: 8 });
    expect(apart.durationMs(8192, 0)! / shared).toBeGreaterThan(4);
  });

  it('counts 8-bit products where the model and the GPU have them', () => {
    const { quantization_config: _, ...wide } = configOf('deepseek-v3');
    const shape = readModelShape(wide);
    const sizes = { shape, backend: 'sglang', tpSize: 8 };
    const at = (system: string) => createPrefillEstimate({ ...sizes, system }).durationMs(8192, 0)!;
    expect(
      at('h200_sxm') / estimate('deepseek-v3', { tpSize: 8, system: 'h200_sxm' }).durationMs(8192, 0)!,
    ).toBeGreaterThan(1.3);
    expect(at('a100_sxm')).toBeGreaterThan(at('h200_sxm'));
  });
});

describe('names and sizes that do not fit', () => {
  it('are refused with what is allowed', () => {
    expect(() => estimate('llama-3.1-8b', { system: 'h100' })).toThrow(
      '--aic-system "h100" is not known; allowed: a100_sxm, b200_sxm, b300_sxm, gb200, gb300, h100_sxm, h200_sxm, h20_sxm, l40s',
    );
    expect(() => estimate('llama-3.1-8b', { system: 'constructor' })).toThrow('is not known');
    expect(() => estimate('llama-3.1-8b', { backend: 'mlx' })).toThrow(
      '--aic-backend "mlx" is not known; allowed: vllm, sglang, trtllm',
    );
  });

  it.each([
    [{ tpSize: 4 }, true],
    [{ tpSize: 4, moeTpSize: 4, moeEpSize: 1, attentionDpSize: 1 }, true],
    [{ tpSize: 4, moeTpSize: 2, moeEpSize: 2 }, true],
    [{ tpSize: 2, attentionDpSize: 4, moeEpSize: 8 }, true],
    [{ tpSize: 2, attentionDpSize: 4, moeTpSize: 2 }, true],
    [{ tpSize: 4, moeTpSize: 2, moeEpSize: 4 }, false],
    [{ tpSize: 4, attentionDpSize: 2, moeTpSize: 4, moeEpSize: 1 }, false],
    [{ tpSize: 4, moeEpSize: 3 }, false],
    [{ tpSize: 4, moeTpSize: 3 }, false],
  ])('tp x attention dp = moe tp x moe ep: %j is %s', (sizes, fits) => {
    const make = () => estimate('mixtral-8x7b', sizes);
    if (fits) expect(make).not.toThrow();
    else expect(make).toThrow(/^--aic-tp-size \d x --aic-attention-dp-size \d must equal /);
  });

  it('are those of experts for a model that has none', () => {
    expect(() => estimate('llama-3.1-8b', { moeEpSize: 1 })).toThrow(
      '--aic-moe-ep-size is for models with experts, and this model has none',
    );
  });
});
