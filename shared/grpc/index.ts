/**
 * @module grpc
 * gRPC servers over HTTP/2: calls and their messages, limits of connections, health checks and reflection. What the messages of
 * a method mean is its service's business.
 */
export { HEALTH, HealthService } from './health.ts';
export { framed } from './message-frames.ts';
export { reflectionMethods } from './reflection.ts';
export { type GrpcServer, type GrpcServerOptions, type GrpcTls, openGrpcServer } from './server.ts';
export { GrpcStatus, retryTrailers, STATUS, statusOf } from './status.ts';
export type { GrpcCall, GrpcMethod } from './types.ts';
export { receiveOne, unary } from './unary.ts';
