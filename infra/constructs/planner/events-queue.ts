import { Duration } from 'aws-cdk-lib';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Grant } from 'aws-cdk-lib/aws-iam';
import { DeduplicationScope, FifoThroughputLimit, type IQueue, Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

/** Longest run of the planner's function. Its lease of a model, 60 s, is longer. */
export const PLANNING = Duration.seconds(45);
/**
 * Time after which the queue hands a message out again that the function did not handle. Until then the other messages
 * of its model wait. So it is only a little more than one run: a message that comes twice changes nothing.
 */
const HIDDEN = Duration.seconds(60);
/** Times that a message is handed out. Together they take less than it may wait, else it would never be a dead one. */
const RECEIVES_MAX = 5;
/** Older messages say nothing new: a tick comes each minute. */
const KEPT = Duration.minutes(10);
const DEAD_KEPT = Duration.days(14);

/**
 * Queue of a planner: each model is a message group, so that one function at a time plans for it. EventBridge sends no
 * ids for duplicates, so the content decides.
 */
export class EventsQueue extends Construct {
  readonly queue: IQueue;
  /** Messages that could not be handled. */
  readonly dead: IQueue;
  /**
   * Ticks, events and held requests that could not be delivered to the queue. EventBridge and Lambda take no FIFO queue
   * for them.
   */
  readonly undelivered: IQueue;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    // No key of KMS: EventBridge would need rights in the policy of that key. The messages count requests, and hold
    // none.
    const secured = { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true };
    const common = { ...secured, fifo: true };
    this.undelivered = new Queue(this, 'Undelivered', { ...secured, retentionPeriod: DEAD_KEPT });
    const dead = new Queue(this, 'Dead', { ...common, retentionPeriod: DEAD_KEPT });
    this.queue = new Queue(this, 'Queue', {
      ...common,
      contentBasedDeduplication: true,
      deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
      fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
      visibilityTimeout: HIDDEN,
      retentionPeriod: KEPT,
      deadLetterQueue: { queue: dead, maxReceiveCount: RECEIVES_MAX },
    });
    this.dead = dead;
  }

  /** Allows Lambda to hand messages to a function ("Creating and configuring an Amazon SQS event source mapping"). */
  grantTake(grantee: IGrantable): void {
    const actions = ['sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ReceiveMessage'];
    Grant.addToPrincipal({ grantee, actions, resourceArns: [this.queue.queueArn] });
  }
}
