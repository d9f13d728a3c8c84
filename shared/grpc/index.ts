/**
 * @module grpc Servers over HTTP/2: calls and their messages, limits of connections, health checks and reflection. This
 * room does not know what the messages of a method mean; the method's service reads them.
 */
export { framed } from './message-frames.ts';
export { type MessageRoom, OwnRoom } from './message-intake.ts';
export { decodeMessage, encodeMessage } from './messages/codec.ts';
export {
  AuthenticateRequestSchema,
  AuthenticateResponseSchema,
  DeleteRangeRequestSchema,
  type Event as EtcdEvent,
  Event_EventType as EtcdEventType,
  HeaderResponseSchema,
  type KeyValue as EtcdKeyValue,
  LeaseGrantRequestSchema,
  LeaseGrantResponseSchema,
  LeaseKeepAliveRequestSchema,
  LeaseKeepAliveResponseSchema,
  LeaseRevokeRequestSchema,
  PutRequestSchema,
  RangeRequestSchema,
  type RangeResponse,
  RangeResponseSchema,
  type ResponseHeader as EtcdHeader,
  TxnRequestSchema,
  TxnResponseSchema,
  WatchRequestSchema,
  type WatchResponse,
  WatchResponseSchema,
} from './messages/generated/etcd_pb.js';
export {
  BodySendMode,
  file_external_processor,
  type HeaderMap,
  HeaderValueOption_HeaderAppendAction,
  type HttpBody,
  type HttpHeaders,
  type ProcessingRequest,
  ProcessingRequestSchema,
  ProcessingResponseSchema,
} from './messages/generated/external_processor_pb.js';
export {
  file_grpc_service,
  ModelConfigRequestSchema,
  ModelConfigResponseSchema,
  ModelMetadataRequestSchema,
  ModelMetadataResponseSchema,
  ModelReadyRequestSchema,
  ModelReadyResponseSchema,
  ModelStatisticsRequestSchema,
  ModelStatisticsResponseSchema,
  RepositoryIndexRequestSchema,
  RepositoryIndexResponseSchema,
  ServerLiveResponseSchema,
  ServerMetadataResponseSchema,
  ServerReadyResponseSchema,
} from './messages/generated/grpc_service_pb.js';
export { file_health } from './messages/generated/health_pb.js';
export { type ModelConfig, ModelConfigSchema } from './messages/generated/model_config_pb.js';
export { file_router } from './messages/generated/router_pb.js';
export { type GrpcCall, type GrpcMethod, onceRead, openUnary, receiveOne, unary } from './methods.ts';
export { defaultConnectionsMax } from './open-files.ts';
export { same, toBuffer } from './raw-bytes.ts';
export { FIRST_WINDOW_BYTES, type GrpcServer, type GrpcServerOptions, type GrpcTls, openGrpcServer } from './server.ts';
export { HEALTH, HealthService, reflectionMethods } from './standard-services.ts';
export { GrpcStatus, retryTrailers, STATUS, statusName, statusOf } from './status.ts';
