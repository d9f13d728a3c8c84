/**
 * @module planes/nats
 * The one adapter that knows the NATS client: a connection that outlives outages, streams and objects of JetStream. The
 * planes and the snapshot store are built on it.
 */
export { NatsClient, retryPauseMs } from './client.ts';
export type { NatsMessage } from './messages.ts';
export { openNats, tellSome } from './open-nats.ts';
export type { NatsStream } from './stream.ts';
export type {
  NatsIdentity,
  NatsObserver,
  NatsOptions,
  NatsStreamFacts,
  NatsSubscription,
  NatsTls,
} from './types.ts';
