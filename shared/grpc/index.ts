/**
 * @module grpc
 * gRPC servers over HTTP/2: calls and their messages, limits of connections, health checks and reflection. What the messages of
 * a method mean is its service's business.
 */

export { framed } from './message-frames.ts';
export { type GrpcCall, type GrpcMethod, receiveOne, unary } from './methods.ts';
export { type GrpcServer, type GrpcServerOptions, type GrpcTls, openGrpcServer } from './server.ts';
export { HEALTH, HealthService, reflectionMethods } from './standard-services.ts';
export { GrpcStatus, retryTrailers, STATUS, statusOf } from './status.ts';
