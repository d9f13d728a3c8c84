/**
 * @module frontends/grpc
 * KServe v2 by gRPC: the methods of Triton's clients over the same pipeline as HTTP. A door that is loaded where gRPC is served.
 */
export type { KserveDeps } from './grpc-exchange.ts';
export { createKserveService, type KserveService } from './service.ts';
