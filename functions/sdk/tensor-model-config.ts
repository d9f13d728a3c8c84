import type { TensorModelConfig } from '../../shared/discovery/index.ts';
import { DATA_TYPES, recordTypeOf } from '../../shared/protocol/kserve/index.ts';

/**
 * Checks what a tensor model says of itself, before frontends read it.
 * @throws TypeError that names the field, what it holds, and what is allowed
 */
export function checkTensorModelConfig({ name, inputs, outputs }: TensorModelConfig): void {
  const at = 'card.tensorModelConfig';
  if (typeof name !== 'string') throw wrong(`${at}.name`, name, 'a name');
  for (const [field, tensors] of Object.entries({ inputs, outputs })) {
    if (!Array.isArray(tensors)) throw wrong(`${at}.${field}`, tensors, 'a list of { name, data_type, shape }');
    for (const [index, tensor] of tensors.entries()) checkTensor(`${at}.${field}[${index}]`, tensor);
  }
}

function checkTensor(at: string, tensor: TensorModelConfig['inputs'][number]): void {
  const { name, data_type: dataType, shape } = tensor;
  if (typeof name !== 'string' || name === '') throw wrong(`${at}.name`, name, 'a name');
  if (recordTypeOf(dataType) === undefined) {
    throw wrong(`${at}.data_type`, dataType, DATA_TYPES.map(({ record }) => record).join(', '));
  }
  if (!Array.isArray(shape) || !shape.every((size) => Number.isInteger(size) && size >= -1)) {
    throw wrong(`${at}.shape`, shape, 'a list of whole numbers, -1 for any length');
  }
}

/** Rejects, as above, with bytes that are no `inference.ModelConfig`. The code that reads them is loaded for it. */
export async function checkTritonConfig({ triton_model_config: bytes }: TensorModelConfig): Promise<void> {
  if (bytes === undefined) return;
  const { decodeMessage, ModelConfigSchema } = await import('../../shared/grpc/messages/index.ts');
  try {
    decodeMessage(ModelConfigSchema, Uint8Array.from(bytes));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`card.tensorModelConfig.triton_model_config: ${reason}`, { cause });
  }
}

function wrong(field: string, value: unknown, allowed: string): TypeError {
  return new TypeError(`${field} ${JSON.stringify(value) ?? String(value)}: expected ${allowed}`);
}
