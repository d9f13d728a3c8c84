/**
 * @module planes/nats
 * The one adapter that knows the NATS client: a connection that outlives outages, streams and objects of JetStream. The
 * planes and the snapshot store are built on it.
 */
export { createNatsClient } from './client.ts';
export type {
  NatsBucket,
  NatsBucketSettings,
  NatsClient,
  NatsIdentity,
  NatsMessage,
  NatsObserver,
  NatsOptions,
  NatsStream,
  NatsStreamFacts,
  NatsStreamReader,
  NatsStreamReceiver,
  NatsStreamSettings,
  NatsSubscription,
  NatsTls,
  NatsWatcher,
} from './types.ts';
