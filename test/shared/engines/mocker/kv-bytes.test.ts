import { describe, expect, it } from 'vitest';
import { kvBytesPerToken } from '../../../../shared/engines/mocker/transfers.ts';

const QWEN = { num_hidden_layers: 28, num_attention_heads: 16, num_key_value_heads: 8, head_dim: 128 };

describe('kvBytesPerToken', () => {
  it('is what the published example says', () => {
    expect(kvBytesPerToken({ ...QWEN, torch_dtype: 'bfloat16' }, 'auto')).toBe(114_688);
  });

  it('halves with an 8-bit cache, and follows the type of the model', () => {
    expect(kvBytesPerToken(QWEN, 'fp8_e4m3')).toBe(57_344);
    expect(kvBytesPerToken({ ...QWEN, dtype: 'float32' }, 'auto')).toBe(229_376);
  });

  it('takes the head size from the width, and the text part of a multimodal model', () => {
    const text = { num_hidden_layers: 2, num_attention_heads: 4, hidden_size: 64 };
    expect(kvBytesPerToken(text, 'bfloat16')).toBe(2 * 2 * 4 * 16 * 2);
    expect(kvBytesPerToken({ text_config: text }, 'bfloat16')).toBe(2 * 2 * 4 * 16 * 2);
  });

  it('is 0 for a model that says nothing', () => {
    expect(kvBytesPerToken({}, 'auto')).toBe(0);
  });
});
