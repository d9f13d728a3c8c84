import type { Clock } from '../../clock/index.ts';
import { HELD_PREFIX, type HeldWaker } from '../../planner/index.ts';
import { RecordReader } from '../../records/index.ts';
import { type InvocationContext, invocations } from './invocation.ts';

interface HandlerOptions {
  readonly clock: Clock;
  /** Opens the waker with the first batch. After a failure the next batch opens it again. */
  open(): Promise<Pick<HeldWaker, 'wake'>>;
}

/** Time that is left for the answer before Lambda ends the environment. */
const MARGIN_MS = 1000;

const read = new RecordReader((what) => new TypeError(`not an event of a table's stream: ${what}`));

/**
 * Returns the handler of a Lambda function that takes the stream of the planner's table. A record names a model of
 * which requests are held; what is held is read from the table. The stream hands out again what begins with the first
 * record that the answer names, or all records if the handler rejects ("Using DynamoDB as an event source").
 */
export function streamHandler({ clock, open }: HandlerOptions) {
  const invoke = invocations({ clock, open, marginMs: MARGIN_MS });
  return (event: unknown, context: InvocationContext) =>
    invoke(context, async (waker, signal) => {
      const records = read.list(read.record(event, 'event').Records, 'Records').flatMap(heldIn);
      const groups = records.map(({ group }) => group);
      const failed = new Set(await waker.wake(groups, signal));
      const again = records.filter(({ group }) => failed.has(group));
      return { batchItemFailures: again.map(({ sequenceNumber }) => ({ itemIdentifier: sequenceNumber })) };
    });
}

/** Returns the model of a record; nothing for an item that is no note. */
function heldIn(record: unknown, at: number) {
  const { dynamodb } = read.record(record, `Records[${at}]`);
  const { Keys, SequenceNumber } = read.record(dynamodb, 'dynamodb');
  const { pk } = read.record(Keys, 'Keys');
  const partition = read.text(read.record(pk, 'pk').S, 'pk.S');
  if (!partition.startsWith(HELD_PREFIX)) return [];
  return [{ group: partition.slice(HELD_PREFIX.length), sequenceNumber: read.text(SequenceNumber, 'SequenceNumber') }];
}
