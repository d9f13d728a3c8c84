/**
 * @module planes/event
 * Moves KV events, load reports and router synchronisation from publishers to subscribers, at most once.
 */
export type {
  EventEnvelope,
  EventListener,
  EventPlane,
  EventPublisher,
  EventScope,
  EventSubscription,
  EventTransport,
} from './types.ts';
