/** The services that a router serves by gRPC, as both ends name them. */
export const ROUTER = 'stator.router.v1.Router';
export const HEALTH = 'grpc.health.v1.Health';

/** A prompt of a million blocks has 16 MB of hashes. */
export const MESSAGE_BYTES_MAX = 32 << 20;

/** Trailer of a failure: its class in Stator's own names, which are finer than the statuses of gRPC. */
export const ERROR_KIND_TRAILER = 'stator-error-kind';
