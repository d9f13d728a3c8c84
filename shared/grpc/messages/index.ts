/**
 * @module grpc/messages
 * The messages of proto/, as `npm run proto` generates them, and how they are read and written.
 */
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { workerError } from '../../errors/index.ts';

export {
  file_grpc_service,
  GRPCInferenceService,
  ModelConfigRequestSchema,
  ModelConfigResponseSchema,
  ModelInferRequestSchema,
  ModelInferResponseSchema,
  ModelMetadataRequestSchema,
  ModelMetadataResponseSchema,
  ModelReadyRequestSchema,
  ModelReadyResponseSchema,
  ModelStatisticsRequestSchema,
  ModelStatisticsResponseSchema,
  ModelStreamInferResponseSchema,
  RepositoryIndexRequestSchema,
  RepositoryIndexResponseSchema,
  ServerLiveResponseSchema,
  ServerMetadataResponseSchema,
  ServerReadyResponseSchema,
} from './generated/grpc_service_pb.js';
export { file_health, HealthCheckRequestSchema, HealthCheckResponseSchema } from './generated/health_pb.js';
export { type ModelConfig, ModelConfigSchema } from './generated/model_config_pb.js';
export {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from './generated/reflection_pb.js';
export { file_router } from './generated/router_pb.js';

/** @throws ServeError `invalid_value` for bytes that are no such message */
export function decodeMessage<Schema extends DescMessage>(schema: Schema, bytes: Uint8Array): MessageShape<Schema> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'unreadable';
    throw workerError('InvalidArgument', `failed to decode Protobuf message: ${schema.name}: ${reason}`);
  }
}

export function encodeMessage<Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>): Uint8Array {
  return toBinary(schema, create(schema, init));
}
