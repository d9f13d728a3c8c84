import { describe, expect, it } from 'vitest';
import { decodeEngineRequest, encodeEngineRequest, readEmbeddings } from '../../../shared/protocol/index.ts';
import type { EncodeOptions } from '../../../shared/tokens/types.ts';
import { letterModel, letterTokenizer, model, preprocessed, request } from './fixtures.ts';

/** Letters, with an end token where special tokens are asked for. */
const closing = {
  ...letterModel,
  tokenizer: {
    ...letterTokenizer,
    encode: (text: string, options?: EncodeOptions) =>
      Uint32Array.from([...letterTokenizer.encode(text), ...(options?.addSpecialTokens === true ? [0] : [])]),
  },
};

const asking = (text: string) =>
  request({ endpoint: 'embeddings', prompt: { kind: 'raw', text }, embedding: { dimensions: 8 } });

describe('the prompt of an embedding', () => {
  it('has the special tokens of its model, no stop conditions, and says what is wanted', async () => {
    const { request: sent, promptTokens } = await preprocessed(asking('ab'), model(), closing);
    expect(promptTokens).toBe(3);
    expect(sent).toMatchObject({ input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 0) }, stop: {} });
    const { body, tokenIds } = encodeEngineRequest(sent);
    expect(decodeEngineRequest('r1', body, tokenIds).embedding).toEqual({ dimensions: 8 });
  });

  it('adds no special tokens to a prompt that the model continues', async () => {
    const { promptTokens } = await preprocessed(request(), model(), closing);
    expect(promptTokens).toBe(3);
  });

  it('is refused when it does not fit, under the name of its field', async () => {
    const prompt = asking('a'.repeat(100));
    await expect(preprocessed(prompt, model(), closing)).rejects.toThrow(
      expect.objectContaining({ code: 'context_length_exceeded', param: 'input' }),
    );
  });
});

describe('the embeddings of a worker', () => {
  it.each([undefined, null, 'text', [], {}, { embeddings: 'x' }, { embeddings: [1] }])('are not %j', (body) => {
    expect(readEmbeddings(body)).toBeUndefined();
  });
});
