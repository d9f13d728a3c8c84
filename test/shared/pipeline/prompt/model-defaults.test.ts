import { describe, expect, it } from 'vitest';
import type { SamplingDefaults } from '../../../../shared/discovery/index.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { letterModel, model, preprocessed, request } from '../fixtures.ts';

const DEFAULTS = {
  temperature: 0.6,
  top_p: 0.95,
  top_k: 20,
  min_p: 0.1,
  repetition_penalty: 1.05,
} satisfies SamplingDefaults;

async function sent(
  more: Partial<GenerationRequest>,
  sampling_defaults: SamplingDefaults = DEFAULTS,
  { maxTokensDefault, contextLength = 100 }: { maxTokensDefault?: number; contextLength?: number } = {},
) {
  const named = model({ contextLength });
  const served = { ...named, card: { ...named.card, runtime_config: { sampling_defaults } } };
  const { request: asked } = await preprocessed(request(more), served, letterModel, { maxTokensDefault });
  return asked;
}

describe("a model's own sampling", () => {
  it('is that of a request that says nothing', async () => {
    expect((await sent({})).sampling).toEqual(DEFAULTS);
  });

  it('gives way to each thing that the client says, and to no other', async () => {
    const sampling = { temperature: 1, top_k: -1, presence_penalty: 0.5 };
    expect((await sent({ sampling })).sampling).toEqual({ ...DEFAULTS, ...sampling });
  });

  it('leaves a greedy request greedy, with the penalties of the model', async () => {
    expect((await sent({ sampling: { temperature: 0 } })).sampling).toEqual({
      temperature: 0,
      repetition_penalty: DEFAULTS.repetition_penalty,
    });
  });

  it('is no matter of embeddings', async () => {
    const asked = await sent({ embedding: {} }, { ...DEFAULTS, max_tokens: 3 });
    expect(asked.sampling).toEqual({});
    expect(asked.stop.max_tokens).toBeUndefined();
  });

  // The context has 100 tokens, the prompt three.
  it.each<[string, GenerationRequest['stop'], SamplingDefaults, number]>([
    ['the rest of the context without a default', {}, {}, 97],
    ['the default', {}, { max_tokens: 9 }, 9],
    ['the rest of the context, where the default is more', {}, { max_tokens: 900 }, 97],
    ['what the client asks for', { max_tokens: 20 }, { max_tokens: 9 }, 20],
    ['as many as the client wants at least', { min_tokens: 12 }, { max_tokens: 9 }, 12],
    ['the bound, where the client asks for more', { max_tokens: 20 }, { max_tokens: 9, max_tokens_limit: 9 }, 9],
    ['the bound without a default', {}, { max_tokens_limit: 7 }, 7],
    ['less than the bound', { max_tokens: 5 }, { max_tokens_limit: 7 }, 5],
  ])('ends a choice after %s', async (_, stop, defaults, tokens) => {
    expect((await sent({ stop }, defaults)).stop.max_tokens).toBe(tokens);
  });

  it('of a bound holds where the context is not known, too', async () => {
    const named = model({ contextLength: 0 });
    const runtime_config = { sampling_defaults: { max_tokens: 9 } };
    const served = { ...named, card: { ...named.card, runtime_config } };
    expect((await preprocessed(request(), served, letterModel)).request.stop.max_tokens).toBe(9);
  });
});

describe("a deployment's own number of tokens", () => {
  const asked = async (more: Partial<GenerationRequest>, defaults: SamplingDefaults = {}, contextLength = 100) =>
    (await sent(more, defaults, { maxTokensDefault: 10, contextLength })).stop.max_tokens;

  it.each<[string, GenerationRequest['stop'], SamplingDefaults, number]>([
    ['it, for a client and a model that name none', {}, {}, 10],
    ['what the client asks for, though it is more', { max_tokens: 20 }, {}, 20],
    ['what the client asks for, which is less', { max_tokens: 5 }, {}, 5],
    ['what the model says, which is less', {}, { max_tokens: 9 }, 9],
    ['it, where the model says more', {}, { max_tokens: 50 }, 10],
    ['as many as the client wants at least', { min_tokens: 12 }, {}, 12],
    ['it after the thinking that the client asks for', { max_thinking_tokens: 15 }, {}, 25],
    ['what the client asks for, thinking included', { max_thinking_tokens: 15, max_tokens: 20 }, {}, 20],
    ['the bound of the engine', { min_tokens: 12 }, { max_tokens_limit: 7 }, 7],
  ])('ends a choice after %s', async (_, stop, defaults, tokens) => {
    expect(await asked({ stop }, defaults)).toBe(tokens);
  });

  it('gives way to the context, and holds where that is not known', async () => {
    expect(await asked({}, {}, 8)).toBe(5);
    expect(await asked({}, {}, 0)).toBe(10);
  });

  it('is not taken for what a client asked: an answer that is kept has the room that it has', async () => {
    expect(await asked({ stream: false, answerTokensMax: 4 })).toBe(4);
    expect(await asked({ stream: false, answerTokensMax: 50 })).toBe(10);
  });

  it('is no matter of embeddings', async () => {
    expect(await asked({ embedding: {} })).toBeUndefined();
  });
});
