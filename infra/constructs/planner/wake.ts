import { Duration } from 'aws-cdk-lib';
import { Grant, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  type Code,
  EventSourceMapping,
  FilterCriteria,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  StartingPosition,
  SystemLogLevel,
} from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { HELD_PREFIX } from '../../../shared/planner/index.ts';
import { createLogGroup } from '../log-groups.ts';
import { EVERY_PROCESS } from '../process-environment.ts';
import type { EventsQueue } from './events-queue.ts';
import type { PlannerTable } from './planner-table.ts';

export interface WakeProps {
  /** Folder with `index.mjs`, which exports `handler`. */
  readonly code: Code;
  readonly table: PlannerTable;
  /** Queue of the planner. */
  readonly queue: EventsQueue;
  /** Whether Lambda sets its concurrency apart from that of the account's other functions. */
  readonly isReserved: boolean;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** Records that the function gets: writes of notes of held requests, and nothing else of the table. */
export const HELD_RECORDS = {
  eventName: ['INSERT', 'MODIFY'],
  dynamodb: { Keys: { pk: { S: [{ prefix: HELD_PREFIX }] } } },
};
/**
 * Time in which records are collected. A start of a machine takes minutes, and the environments that a burst of
 * requests starts write within a second of each other.
 */
export const COLLECTED = Duration.seconds(1);
/** Records of one run, which names a few models. */
const BATCH = 1000;
/** Older records say nothing: each environment writes again after 5 s. */
const AGE_MAX = Duration.seconds(60);
const RETRIES = 3;
/** Shards of the stream: a new table takes 4,000 writes a second, and each of its partitions takes 1,000. */
const SHARDS = 4;

/**
 * The function that tells the planner how many requests the HTTP function holds. One run at a time takes each shard of
 * the stream, and tells all models in it at once.
 *
 *     HTTP function ──> table ──stream──> this function ──> queue ──> planner
 */
export class Wake extends Construct {
  constructor(scope: Construct, id: string, props: WakeProps) {
    super(scope, id);
    const { code, table } = props;
    const { queue, undelivered } = props.queue;
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
      description: 'Stator: wakes the planner',
    });
    logGroup.grantWrite(role);
    table.grantSum(role);
    const resourceArns = [queue.queueArn, undelivered.queueArn];
    Grant.addToPrincipal({ grantee: role, actions: ['sqs:SendMessage'], resourceArns });
    const target = new LambdaFunction(this, 'Function', {
      description: 'Stator: tells the planner of held requests',
      code,
      handler: 'index.handler',
      runtime: Runtime.NODEJS_22_X,
      architecture: Architecture.ARM_64,
      memorySize: 256,
      timeout: Duration.seconds(10),
      environment: {
        ...EVERY_PROCESS,
        STATOR_PLANNER_TABLE: table.tableName,
        STATOR_PLANNER_QUEUE_URL: queue.queueUrl,
      },
      role,
      logGroup,
      loggingFormat: LoggingFormat.JSON,
      systemLogLevelV2: SystemLogLevel.WARN,
      ...(props.isReserved ? { reservedConcurrentExecutions: SHARDS } : {}),
    });
    new EventSourceMapping(this, 'Source', {
      target,
      eventSourceArn: table.streamArn,
      startingPosition: StartingPosition.LATEST,
      filters: [FilterCriteria.filter(HELD_RECORDS)],
      batchSize: BATCH,
      maxBatchingWindow: COLLECTED,
      maxRecordAge: AGE_MAX,
      retryAttempts: RETRIES,
      reportBatchItemFailures: true,
      onFailure: { bind: () => ({ destination: undelivered.queueArn }) }, // a batch that could not be told
    });
  }
}
