/**
 * @module planes/nats-requests
 * The request plane over NATS. A door of its own: most processes call their workers over TCP.
 */
export { createNatsRequestPlane, type NatsRequestPlaneOptions } from '../request/nats/plane.ts';
