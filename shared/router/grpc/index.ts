/**
 * @module router/grpc
 * The resident router by gRPC (proto/router.proto), for who serves it and who asks it. A door of its own: it is loaded only
 * where a setting asks for gRPC.
 */
export { RouterLine, type RouterLineOptions } from './router-line.ts';
export { type RouterGrpcOptions, type RouterGrpcServer, serveRouterGrpc } from './router-server.ts';
