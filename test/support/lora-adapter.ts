/** Facts of a model's `config.json` that an adapter needs. */
interface ModelShape {
  readonly hidden_size: number;
  readonly num_attention_heads: number;
  readonly head_dim: number;
}

const RANK = 8;
const QUERIES = 'base_model.model.model.layers.0.self_attn.q_proj';

/** Returns the files of a LoRA adapter by name. The adapter changes the queries of the first layer. */
export function makeLoraAdapter({
  hidden_size,
  num_attention_heads,
  head_dim,
}: ModelShape): ReadonlyMap<string, Buffer> {
  const config = { peft_type: 'LORA', r: RANK, lora_alpha: RANK, target_modules: ['q_proj'], bias: 'none' };
  const weights = safetensors({
    [`${QUERIES}.lora_A.weight`]: [RANK, hidden_size],
    [`${QUERIES}.lora_B.weight`]: [num_attention_heads * head_dim, RANK],
  });
  return new Map([
    ['adapter_config.json', Buffer.from(JSON.stringify(config))],
    ['adapter_model.safetensors', weights],
  ]);
}

/** Encodes tensors of these shapes in the file format of safetensors: header length, header, numbers. */
function safetensors(shapes: Readonly<Record<string, readonly [number, number]>>): Buffer {
  let end = 0;
  const entries = Object.entries(shapes).map(([name, shape]) => {
    const start = end;
    end += shape[0] * shape[1] * Float32Array.BYTES_PER_ELEMENT;
    return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const numbers = Float32Array.from({ length: end / Float32Array.BYTES_PER_ELEMENT }, (_, at) => Math.sin(at));
  return Buffer.concat([length, header, Buffer.from(numbers.buffer)]);
}
