import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { BusEvent } from './types.ts';

/**
 * Returns a function that puts events into a FIFO queue as a rule of EventBridge does: the whole event is the body, and
 * the rule's target has one static message group. `settled` resolves once all of them are in the queue.
 */
export function toQueue(client: SQSClient, queueUrl: string, messageGroup: string) {
  let last: Promise<unknown> = Promise.resolve();
  return {
    onEvent: (event: BusEvent): void => {
      const command = new SendMessageCommand({
        QueueUrl: queueUrl,
        MessageBody: JSON.stringify(event),
        MessageGroupId: messageGroup,
        MessageDeduplicationId: event.id,
      });
      last = last.then(() => client.send(command));
    },
    settled: async (): Promise<void> => void (await last),
  };
}
