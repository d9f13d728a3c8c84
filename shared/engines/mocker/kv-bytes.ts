import { isRecord, type UnknownRecord } from '../../records/index.ts';

/** Bytes of one number in the KV cache. `auto` is the model's own type, two bytes where it does not say. */
const BYTES: Readonly<Record<string, number>> = { float32: 4, float16: 2, bfloat16: 2 };

/**
 * KV bytes of one token: layers x 2 x KV heads x head size x bytes of a number.
 * @param config the model's `config.json`
 * @param type `--kv-cache-dtype`
 * @returns 0 where the configuration does not say enough
 */
export function kvBytesPerToken(config: UnknownRecord, type: string): number {
  const text = isRecord(config.text_config) ? { ...config, ...config.text_config } : config;
  const of = (name: string): number | undefined => {
    const value = text[name];
    return typeof value === 'number' && value > 0 ? value : undefined;
  };
  const layers = of('num_hidden_layers') ?? of('n_layer') ?? 0;
  const heads = of('num_attention_heads') ?? of('n_head') ?? 0;
  const kvHeads = of('num_key_value_heads') ?? heads;
  const headSize = of('head_dim') ?? (heads === 0 ? 0 : (of('hidden_size') ?? of('n_embd') ?? 0) / heads);
  return layers * 2 * kvHeads * headSize * bytesOf(type, text);
}

function bytesOf(type: string, { torch_dtype: torch, dtype = torch }: UnknownRecord): number {
  if (type.startsWith('fp8')) return 1;
  if (type !== 'auto') return BYTES[type] ?? 2;
  return (typeof dtype === 'string' ? BYTES[dtype] : undefined) ?? 2;
}
