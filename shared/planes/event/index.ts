/**
 * @module planes/event
 * Moves KV events, load reports and router synchronisation from publishers to subscribers, at most once.
 */

export { LARGE_RECORD_BYTES, readSliced } from '../sliced-record.ts';
export {
  createNatsEventPlane,
  type NatsEventLogSettings,
  type NatsEventPlaneOptions,
} from './nats/plane.ts';
export {
  type EventEnvelope,
  type EventListener,
  type EventLog,
  type EventLogEntry,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
  type EventPlane,
  type EventPublisher,
  type EventScope,
  type EventSubscription,
  type EventTransport,
  subjectOf,
} from './types.ts';
export { fixedBrokers, type ZmqBrokerSource, type ZmqBrokers } from './zmq/brokers.ts';
export { createZmqEventPlane, type ZmqEventPlaneOptions } from './zmq/plane.ts';
