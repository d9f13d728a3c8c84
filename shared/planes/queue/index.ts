/**
 * @module planes/queue
 * A queue of small messages that keeps the order within a group: what workers and edges tell a planner.
 */
export { PlannerOutbox, type PlannerOutboxOptions } from './planner-outbox.ts';
export { SqsPlannerQueue, type SqsQueueOptions } from './sqs-queue.ts';
export type {
  OutgoingMessage,
  PlannerQueue,
  ReceivedMessage,
  ReceiveOptions,
} from './types.ts';
