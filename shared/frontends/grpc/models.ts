import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ModelCard, TensorModelConfig } from '../../discovery/index.ts';
import {
  decodeMessage,
  encodeMessage,
  GrpcStatus,
  type ModelConfig,
  ModelConfigResponseSchema,
  ModelConfigSchema,
  ModelMetadataResponseSchema,
  type ModelStatisticsResponseSchema,
  STATUS,
} from '../../grpc/index.ts';
import { type ServedModel, servesType } from '../../pipeline/index.ts';
import { recordTypeOf, wireNameOf } from '../../protocol/index.ts';
import { BoundedMap } from '../../records/index.ts';

/* Descriptions of models: this file describes a completions model, and its worker a tensor model. */

const PLATFORM = 'dynamo';
const VERSIONS = ['1'];

/** Description of a tensor that a model takes or gives. */
interface DescribedTensor {
  readonly name: string;
  /** Data type; undefined if it is not known here. */
  readonly type: { readonly wire: string; readonly config: number } | undefined;
  readonly dims: bigint[];
  readonly optional?: boolean;
}

/** Description of a model: its tensors, or Triton's own description if the worker has one. */
type Description =
  | {
      readonly kind: 'tensors';
      readonly name: string;
      readonly inputs: readonly DescribedTensor[];
      readonly outputs: readonly DescribedTensor[];
    }
  | { readonly kind: 'triton'; readonly raw: Uint8Array; readonly config: ModelConfig };

const BYTES = { wire: 'BYTES', config: 13 } as const;
const BOOL = { wire: 'BOOL', config: 1 } as const;
const COMPLETIONS = {
  kind: 'tensors',
  inputs: [
    { name: 'text_input', type: BYTES, dims: [1n] },
    { name: 'streaming', type: BOOL, dims: [1n], optional: true },
  ],
  outputs: [
    { name: 'text_output', type: BYTES, dims: [-1n] },
    { name: 'finish_reason', type: BYTES, dims: [-1n] },
  ],
} as const satisfies Omit<Extract<Description, { kind: 'tensors' }>, 'name'>;

/** Returns whether a model takes requests of KServe. */
export function isForKserve(model: ServedModel): boolean {
  return servesType(model, 'TensorBased') || servesType(model, 'Completions');
}

/**
 * Returns the metadata of a model. @param card that of a model for KServe @throws GrpcStatus if the worker's
 * description is invalid
 */
export function metadataOf(asked: string, card: ModelCard): Uint8Array {
  const described = descriptionOf(asked, card);
  if (described.kind === 'triton')
    return encodeMessage(ModelMetadataResponseSchema, metadataOfTriton(described.config));
  const { name, inputs, outputs } = described;
  const tensor = ({ name: tensorName, type, dims: shape }: DescribedTensor) => ({
    name: tensorName,
    datatype: type?.wire ?? 'TYPE_INVALID',
    shape,
  });
  return encodeMessage(ModelMetadataResponseSchema, {
    name,
    versions: VERSIONS,
    platform: PLATFORM,
    inputs: inputs.map(tensor),
    outputs: outputs.map(tensor),
  });
}

function metadataOfTriton({ name, platform, input, output, maxBatchSize }: ModelConfig) {
  const batch = maxBatchSize > 0 ? [-1n] : [];
  const tensor = (each: { name: string; dataType: number; dims: bigint[] }) => ({
    name: each.name,
    datatype: wireNameOf(each.dataType),
    shape: [...batch, ...each.dims],
  });
  return { name, versions: VERSIONS, platform, inputs: input.map(tensor), outputs: output.map(tensor) };
}

/** Returns the configuration of a model. @throws GrpcStatus as `metadataOf` does */
export function configOf(asked: string, card: ModelCard): Uint8Array {
  const described = descriptionOf(asked, card);
  if (described.kind === 'triton') return asField1(described.raw);
  const { name, inputs, outputs } = described;
  const tensor = ({ type, ...told }: DescribedTensor) => ({ ...told, dataType: type?.config ?? 0 });
  return encodeMessage(ModelConfigResponseSchema, {
    config: {
      name,
      platform: PLATFORM,
      backend: PLATFORM,
      input: inputs.map(tensor),
      output: outputs.map(tensor),
    },
  });
}

function descriptionOf(asked: string, card: ModelCard): Description {
  if (!card.model_type.includes('TensorBased')) return { ...COMPLETIONS, name: asked };
  const { tensor_model_config: told } = card;
  if (told === undefined) throw badConfig(asked, 'no model config is provided');
  if (told.triton_model_config !== undefined) return tritonConfigOf(asked, Uint8Array.from(told.triton_model_config));
  const tensor = ({ name, data_type, shape }: TensorModelConfig['inputs'][number]): DescribedTensor => ({
    name,
    type: recordTypeOf(data_type),
    dims: shape.map(BigInt),
  });
  return { kind: 'tensors', name: told.name, inputs: told.inputs.map(tensor), outputs: told.outputs.map(tensor) };
}

function tritonConfigOf(name: string, raw: Uint8Array): Description {
  try {
    return { kind: 'triton', raw, config: decodeMessage(ModelConfigSchema, raw) };
  } catch (thrown) {
    throw badConfig(name, thrown instanceof Error ? thrown.message : 'failed to decode Protobuf message');
  }
}

function badConfig(name: string, reason: string): GrpcStatus {
  return new GrpcStatus(STATUS.INVALID_ARGUMENT, `Model '${name}' has type Tensor but: ${reason}`);
}

/** Returns the bytes as a worker registered them, so that fields of a later Triton stay. */
function asField1(raw: Uint8Array): Uint8Array {
  const length: number[] = [];
  for (let rest = raw.length; ; rest >>>= 7) {
    length.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) break;
  }
  return Buffer.concat([Uint8Array.of(0x0a, ...length), raw]);
}

/** Outcome of one request. */
interface NotedRequest {
  readonly hasSucceeded: boolean;
  /** Milliseconds from the arrival of the request to its end. */
  readonly ms: number;
  /** Unix time. */
  readonly wallMs: number;
}

interface Counts {
  succeeded: number;
  succeededMs: number;
  failed: number;
  failedMs: number;
  lastWallMs: number;
}

const NS_PER_MS = 1e6;
/** Number of models that are remembered: the latest ones. */
const MODELS_MAX = 1024;

/**
 * Counts the requests of each model that this process has served by gRPC, for `ModelStatistics`. One request counts as
 * one inference and one execution; the times inside workers are not included.
 */
export class InferStatistics {
  readonly #models = new BoundedMap<string, Counts>(MODELS_MAX);

  noted(model: string, { hasSucceeded, ms, wallMs }: NotedRequest): void {
    const counts = this.#models.get(model) ?? { succeeded: 0, succeededMs: 0, failed: 0, failedMs: 0, lastWallMs: 0 };
    this.#models.set(model, counts);
    counts.lastWallMs = wallMs;
    if (hasSucceeded) {
      counts.succeeded++;
      counts.succeededMs += ms;
    } else {
      counts.failed++;
      counts.failedMs += ms;
    }
  }

  /** Returns the statistics of the named models, with zeros for a model without requests. */
  of(names: readonly string[]): MessageInitShape<typeof ModelStatisticsResponseSchema> {
    return { modelStats: names.map((name) => statisticsOf(name, this.#models.get(name))) };
  }
}

function statisticsOf(name: string, counts: Counts | undefined) {
  const { succeeded = 0, succeededMs = 0, failed = 0, failedMs = 0, lastWallMs = 0 } = counts ?? {};
  return {
    name,
    version: '1',
    lastInference: BigInt(Math.round(lastWallMs)),
    inferenceCount: BigInt(succeeded),
    executionCount: BigInt(succeeded),
    inferenceStats: {
      success: duration(succeeded, succeededMs),
      fail: duration(failed, failedMs),
      queue: duration(0, 0),
      computeInput: duration(0, 0),
      computeInfer: duration(succeeded, succeededMs),
      computeOutput: duration(0, 0),
      cacheHit: duration(0, 0),
      cacheMiss: duration(0, 0),
    },
  };
}

function duration(count: number, ms: number) {
  return { count: BigInt(count), ns: BigInt(Math.round(ms * NS_PER_MS)) };
}
