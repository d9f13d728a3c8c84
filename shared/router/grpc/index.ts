/**
 * @module router/grpc
 * The resident router by gRPC (proto/router.proto). A door of its own: functions ask over the request plane and never load it.
 */
export { type RouterGrpcOptions, type RouterGrpcServer, serveRouterGrpc } from './router-server.ts';
