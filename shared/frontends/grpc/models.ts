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
import { type Int64, recordTypeOf, wireNameOf } from '../../protocol/index.ts';
import { modelNotFound } from './responses.ts';

/* What is told of a model: a completions model is described here, a tensor model by its worker. */

const PLATFORM = 'dynamo';
const VERSIONS = ['1'];
const TYPE_BOOL = 1;
const TYPE_STRING = 13;

/** @throws GrpcStatus for a model that is not served here, or whose worker describes it badly */
export function metadataOf(name: string, card: ModelCard | undefined): Uint8Array {
  if (card?.model_type.includes('TensorBased') === true) return tensorMetadata(name, tensorConfigOf(name, card));
  if (card?.model_type.includes('Completions') !== true) throw modelNotFound(name);
  const tensor = (tensorName: string, datatype: string, size: bigint) => ({
    name: tensorName,
    datatype,
    shape: [size],
  });
  return encodeMessage(ModelMetadataResponseSchema, {
    name,
    versions: VERSIONS,
    platform: PLATFORM,
    inputs: [tensor('text_input', 'BYTES', 1n), tensor('streaming', 'BOOL', 1n)],
    outputs: [tensor('text_output', 'BYTES', -1n), tensor('finish_reason', 'BYTES', -1n)],
  });
}

/** @throws GrpcStatus as `metadataOf` does */
export function configOf(name: string, card: ModelCard | undefined): Uint8Array {
  if (card?.model_type.includes('TensorBased') === true) return tensorConfig(name, tensorConfigOf(name, card));
  if (card?.model_type.includes('Completions') !== true) throw modelNotFound(name);
  return encodeMessage(ModelConfigResponseSchema, {
    config: {
      name,
      platform: PLATFORM,
      backend: PLATFORM,
      input: [
        { name: 'text_input', dataType: TYPE_STRING, dims: [1n] },
        { name: 'streaming', dataType: TYPE_BOOL, dims: [1n], optional: true },
      ],
      output: [
        { name: 'text_output', dataType: TYPE_STRING, dims: [-1n] },
        { name: 'finish_reason', dataType: TYPE_STRING, dims: [-1n] },
      ],
    },
  });
}

function tensorConfigOf(name: string, card: ModelCard): TensorModelConfig {
  const config = card.tensor_model_config;
  if (config !== undefined) return config;
  throw badConfig(name, 'no model config is provided');
}

function badConfig(name: string, reason: string): GrpcStatus {
  return new GrpcStatus(STATUS.INVALID_ARGUMENT, `Model '${name}' has type Tensor but: ${reason}`);
}

/** Triton's own description, where the worker has one. */
function tritonConfigOf(name: string, { triton_model_config: bytes }: TensorModelConfig) {
  if (bytes === undefined) return undefined;
  const raw = Uint8Array.from(bytes);
  try {
    return { raw, config: decodeMessage(ModelConfigSchema, raw) };
  } catch (thrown) {
    throw badConfig(name, thrown instanceof Error ? thrown.message : 'failed to decode Protobuf message');
  }
}

function tensorMetadata(asked: string, described: TensorModelConfig): Uint8Array {
  const triton = tritonConfigOf(asked, described);
  if (triton !== undefined) return encodeMessage(ModelMetadataResponseSchema, metadataOfTriton(triton.config));
  const { name, inputs, outputs } = described;
  const tensor = (each: TensorModelConfig['inputs'][number]) => ({
    name: each.name,
    datatype: recordTypeOf(each.data_type)?.wire ?? 'TYPE_INVALID',
    shape: each.shape.map(big),
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

function tensorConfig(asked: string, described: TensorModelConfig): Uint8Array {
  const triton = tritonConfigOf(asked, described);
  if (triton !== undefined) return asField1(triton.raw);
  const { name, inputs, outputs } = described;
  const tensor = (each: TensorModelConfig['inputs'][number]) => ({
    name: each.name,
    dataType: recordTypeOf(each.data_type)?.config ?? 0,
    dims: each.shape.map(big),
  });
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

/** The bytes as a worker registered them, so that fields of a later Triton stay. */
function asField1(raw: Uint8Array): Uint8Array {
  const length: number[] = [];
  for (let rest = raw.length; ; rest >>>= 7) {
    length.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) break;
  }
  return Buffer.concat([Uint8Array.of(0x0a, ...length), raw]);
}

function big(dimension: Int64): bigint {
  return BigInt(dimension);
}

/** How one request went. */
interface NotedRequest {
  readonly hasSucceeded: boolean;
  /** From its coming to its end. */
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
/** Models that are remembered, the latest ones. */
const MODELS_MAX = 1024;

/**
 * What this process has served of each model by gRPC, as `ModelStatistics` tells it. One request is one inference and one
 * execution; what happens inside of workers is theirs to tell.
 */
export class InferStatistics {
  readonly #models = new Map<string, Counts>();

  noted(model: string, { hasSucceeded, ms, wallMs }: NotedRequest): void {
    const counts = this.#models.get(model) ?? { succeeded: 0, succeededMs: 0, failed: 0, failedMs: 0, lastWallMs: 0 };
    this.#models.delete(model);
    this.#models.set(model, counts);
    if (this.#models.size > MODELS_MAX) for (const [oldest] of this.#models) return void this.#models.delete(oldest);
    counts.lastWallMs = wallMs;
    if (hasSucceeded) {
      counts.succeeded++;
      counts.succeededMs += ms;
    } else {
      counts.failed++;
      counts.failedMs += ms;
    }
  }

  /** Of the models of those names; zeros of one that was never asked. */
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
