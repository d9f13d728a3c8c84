/**
 * @module planes
 * Transport of bytes, without knowledge of models. `RequestPlane` carries calls to workers and their answers, by TCP or
 * NATS. `EventPlane` carries messages for many receivers, by ZeroMQ or NATS. SQS carries messages in order within a
 * group. Every wait for a call to be accepted has a limit, and every queue is bounded.
 */
export { absencesOf } from './absences.ts';
export { followEachTransport } from './event/each-transport.ts';
export { createNatsEventPlane } from './event/nats/plane.ts';
export {
  type EventEnvelope,
  type EventListener,
  type EventLog,
  type EventLogFollower,
  type EventLogListener,
  type EventLogState,
  type EventPlane,
  type EventPublisher,
  type EventScope,
  type EventSubscription,
  type EventTransport,
  encodeSegment,
} from './event/types.ts';
export { fixedBrokers, type ZmqBrokerSource, type ZmqBrokers } from './event/zmq/brokers.ts';
export { createZmqEventPlane } from './event/zmq/plane.ts';
export {
  formatHostPort,
  isLoopback,
  type ListenAddress,
  listenAddress,
  listenInRange,
  refuseOpenListener,
} from './listen-address.ts';
export { addressesOf, NatsClient } from './nats/client.ts';
export { openNats } from './nats/open-nats.ts';
export { PlannerOutbox } from './queue/planner-outbox.ts';
export { SqsPlannerQueue } from './queue/sqs-queue.ts';
export type { PlannerQueue, ReceivedMessage } from './queue/types.ts';
export { askOnce, type OneAnswer } from './request/ask-once.ts';
export { refuseDynamo } from './request/dynamo/home-settings.ts';
export { openDynamoPlane } from './request/dynamo/kind.ts';
export { openDynamoServing } from './request/dynamo/serving-kind.ts';
export { isOfDynamo } from './request/dynamo/target.ts';
export { requestPlaneKind } from './request/kinds.ts';
export { type RequestPlaneObserver, silentObserver } from './request/observer.ts';
export { fleetHost, followCertificates, protectionOf, readPlaneTls, readServerTls } from './request/tcp/protection.ts';
export { clientTlsOptions, type PlaneClientTls, type PlaneServerTls, serverTlsOptions } from './request/tcp/tls.ts';
export type {
  Call,
  CallSink,
  IncomingCall,
  OpenPlaneOptions,
  PlaneHandler,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  Transport,
} from './request/types.ts';
export { LARGE_RECORD_BYTES, readSliced } from './sliced-record.ts';
