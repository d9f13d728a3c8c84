import { createHash, randomUUID } from 'node:crypto';

/** Message as a test sends it. */
export interface SentMessage {
  readonly id: string;
  readonly group: string;
  /** A text is sent as it is; everything else as JSON. */
  readonly body: unknown;
  readonly sentAtMs: number;
}

/** Returns a batch of a FIFO queue as Lambda's poller passes it to a function. */
export function queueEvent(messages: readonly SentMessage[]): object {
  return {
    Records: messages.map(({ id, group, body: given, sentAtMs }) => {
      const body = typeof given === 'string' ? given : JSON.stringify(given);
      return {
        messageId: id,
        receiptHandle: randomUUID(),
        body,
        attributes: {
          ApproximateReceiveCount: '1',
          SentTimestamp: String(sentAtMs),
          SequenceNumber: '18849496460467696128',
          MessageGroupId: group,
          SenderId: 'AIDAIO23YVJENQZJOL4VO',
          MessageDeduplicationId: createHash('sha256').update(body).digest('hex'),
          ApproximateFirstReceiveTimestamp: String(sentAtMs + 10),
        },
        messageAttributes: {},
        md5OfBody: createHash('md5').update(body).digest('hex'),
        eventSource: 'aws:sqs',
        eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:planner-events.fifo',
        awsRegion: 'us-east-1',
      };
    }),
  };
}
