/**
 * @module planes/event
 * Moves KV events, load reports and router synchronisation from publishers to subscribers, at most once.
 */

export { LARGE_RECORD_BYTES, readSliced } from '../sliced-record.ts';
export { createMemoryEventPlane, type MemoryEventPlane, type MemoryEventPlaneOptions } from './memory/plane.ts';
export {
  createNatsEventPlane,
  type NatsEventLogSettings,
  type NatsEventPlaneOptions,
} from './nats/plane.ts';
export { subjectOf } from './subject.ts';
export type {
  EventEnvelope,
  EventListener,
  EventLog,
  EventLogEntry,
  EventLogFollower,
  EventLogListener,
  EventLogState,
  EventPlane,
  EventPublisher,
  EventScope,
  EventSubscription,
  EventTransport,
} from './types.ts';
export { fixedBrokers, type ZmqBrokerSource, type ZmqBrokers } from './zmq/brokers.ts';
export { createZmqEventPlane, type ZmqEventPlaneOptions } from './zmq/plane.ts';
