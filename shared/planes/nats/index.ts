/**
 * @module planes/nats
 * The one adapter that knows the NATS client: a connection that outlives outages, streams and objects of JetStream. The
 * planes and the snapshot store are built on it.
 */
export { createNatsClient } from './client.ts';
export {
  type NatsBucket,
  type NatsBucketSettings,
  type NatsClient,
  type NatsIdentity,
  type NatsMessage,
  type NatsObserver,
  type NatsOptions,
  type NatsStream,
  type NatsStreamFacts,
  type NatsStreamReader,
  type NatsStreamReceiver,
  type NatsStreamSettings,
  type NatsSubscription,
  type NatsTls,
  type NatsWatcher,
  silentNatsObserver,
} from './types.ts';
