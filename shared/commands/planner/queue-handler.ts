import type { Clock } from '../../clock/index.ts';
import type { QueuePlanner, QueueRecord } from '../../planner/index.ts';
import { RecordReader } from '../../records/index.ts';
import { type InvocationContext, invocations } from './invocation.ts';

interface HandlerOptions {
  readonly clock: Clock;
  /** Opens the planner with the first batch. After a failure the next batch opens it again. */
  open(): Promise<Pick<QueuePlanner, 'handle'>>;
}

/** Time that is left for the answer, and for noting what could not be done, before Lambda ends the environment. */
const MARGIN_MS = 5000;

const read = new RecordReader((what) => new TypeError(`not an event of a FIFO queue: ${what}`));

/**
 * Returns the handler of a Lambda function that takes the planner's queue. The queue hands out again the messages that
 * the answer names, or all of them if the handler rejects.
 */
export function queueHandler({ clock, open }: HandlerOptions) {
  const invoke = invocations({ clock, open, marginMs: MARGIN_MS });
  return (event: unknown, context: InvocationContext) =>
    invoke(context, async (planner, signal) => {
      const records = read.list(read.record(event, 'event').Records, 'Records').map(recordOf);
      const failures = await planner.handle(records, signal);
      return { batchItemFailures: failures.map((itemIdentifier) => ({ itemIdentifier })) }; // the names of Lambda
    });
}

function recordOf(record: unknown, at: number): QueueRecord {
  const { messageId, body, attributes } = read.record(record, `Records[${at}]`);
  const { MessageGroupId, SentTimestamp } = read.record(attributes, 'attributes');
  return {
    messageId: read.text(messageId, 'messageId'),
    group: read.text(MessageGroupId, 'MessageGroupId'),
    body: read.text(body, 'body'),
    sentAtMs: read.wholeNumber(Number(read.text(SentTimestamp, 'SentTimestamp')), 'SentTimestamp'),
  };
}
