import type { SQSClient } from '@aws-sdk/client-sqs';
import { type Clock, systemClock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { loadCode, reasonOf } from '../../errors/index.ts';
import {
  BATCH_MAX,
  checkMessage,
  MESSAGE_BYTES_MAX,
  type OutgoingMessage,
  type PlannerQueue,
  QueueError,
  type ReceivedMessage,
  type ReceiveOptions,
} from './types.ts';

type SqsSdk = typeof import('./sqs-parts.ts');

export interface SqsQueueOptions {
  /** URL of a FIFO queue whose deduplication scope is the message group. */
  readonly queueUrl: string;
  /** Endpoint. @default the SDK's, by region */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly clock?: Clock;
  /** Longest wait for one answer, beyond the wait of `receive` for messages. @default 5000 */
  readonly requestTimeoutMs?: number;
  /** Longest time of one call, including retries. @default 15,000 */
  readonly operationTimeoutMs?: number;
}

const FIRST_RETRY_MS = 100;
/** Failures that waiting does not heal. */
const FOR_GOOD =
  /AccessDenied|Credentials|InvalidClientTokenId|UnrecognizedClient|SignatureDoesNotMatch|ExpiredToken|InvalidAddress|NonExistentQueue|QueueDoesNotExist|InvalidParameter|InvalidAttribute|MissingParameter|UnsupportedOperation/;

/** Amazon SQS, or a service with its protocol. The first queue loads the SDK. */
export class SqsPlannerQueue implements PlannerQueue {
  readonly name = 'sqs';
  readonly #sdk: SqsSdk;
  readonly #client: SQSClient;
  readonly #options: SqsQueueOptions;
  readonly #clock: Clock;

  private constructor(sdk: SqsSdk, client: SQSClient, options: SqsQueueOptions) {
    this.#sdk = sdk;
    this.#client = client;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  static async open(options: SqsQueueOptions): Promise<SqsPlannerQueue> {
    // tells operators nothing: the SDK is bundled
    process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ||= 'true';
    const sdk = await loadCode('SQS', () => import('./sqs-parts.ts'));
    const { endpoint, requestTimeoutMs = 5000 } = options;
    const region = options.region ?? (endpoint === undefined ? undefined : (process.env.AWS_REGION ?? 'us-east-1'));
    const client = new sdk.SQSClient({
      ...(region === undefined ? {} : { region }),
      ...(endpoint === undefined ? {} : { endpoint }),
      useQueueUrlAsEndpoint: endpoint === undefined, // with an own endpoint, the address in the URL may be another
      maxAttempts: 1,
      requestHandler: { connectionTimeout: requestTimeoutMs },
    });
    return new SqsPlannerQueue(sdk, client, options);
  }

  async send(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<void> {
    for (const message of messages) checkMessage(message);
    for (const batch of batches(messages)) await this.#sendBatch(batch, signal);
  }

  async receive(
    { waitMs, hiddenMs, messagesMax = BATCH_MAX }: ReceiveOptions,
    signal: AbortSignal,
  ): Promise<readonly ReceivedMessage[]> {
    if (hiddenMs < 1000)
      throw new QueueError('refused', `messages must be hidden for at least a second, got ${hiddenMs} ms`);
    const command = new this.#sdk.ReceiveMessageCommand({
      QueueUrl: this.#options.queueUrl,
      MaxNumberOfMessages: Math.min(BATCH_MAX, messagesMax),
      WaitTimeSeconds: Math.min(20, Math.ceil(waitMs / 1000)),
      VisibilityTimeout: Math.ceil(hiddenMs / 1000),
      MessageSystemAttributeNames: ['MessageGroupId', 'SentTimestamp'],
    });
    const answer = await this.#attempt(signal, waitMs, (abortSignal) => this.#client.send(command, { abortSignal }));
    return (answer.Messages ?? []).map(({ MessageId, Body, ReceiptHandle, Attributes }) => ({
      id: MessageId ?? '',
      group: Attributes?.MessageGroupId ?? '',
      body: Body ?? '',
      sentAtMs: Number(Attributes?.SentTimestamp),
      receipt: ReceiptHandle ?? '',
    }));
  }

  async delete(messages: readonly ReceivedMessage[], signal: AbortSignal): Promise<void> {
    for (let at = 0; at < messages.length; at += BATCH_MAX) {
      const Entries = messages
        .slice(at, at + BATCH_MAX)
        .map(({ receipt }, index) => ({ Id: `${index}`, ReceiptHandle: receipt }));
      const command = new this.#sdk.DeleteMessageBatchCommand({ QueueUrl: this.#options.queueUrl, Entries });
      await this.#attempt(signal, 0, (abortSignal) => this.#client.send(command, { abortSignal }));
      // A message that is refused is handed out again; its receiver finds that it was dealt with.
    }
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  async #sendBatch(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.SendMessageBatchCommand({
      QueueUrl: this.#options.queueUrl,
      Entries: batch.map(({ group, deduplicationId, body }, index) => ({
        Id: `${index}`,
        MessageBody: body,
        MessageGroupId: group,
        MessageDeduplicationId: deduplicationId,
      })),
    });
    await this.#attempt(signal, 0, async (abortSignal) => {
      const { Failed = [] } = await this.#client.send(command, { abortSignal });
      const [first] = Failed;
      if (first === undefined) return;
      // sent again, the others are known by their ids
      const code = first.SenderFault === true ? 'misconfigured' : 'unavailable';
      throw new QueueError(
        code,
        `SQS refused ${Failed.length} of ${batch.length} messages: ${first.Message ?? first.Code}`,
      );
    });
  }

  /** Repeats while the queue cannot be reached or throttles, within the time of an operation. */
  async #attempt<T>(signal: AbortSignal, waitMs: number, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { requestTimeoutMs = 5000, operationTimeoutMs = 15_000 } = this.#options;
    const clock = this.#clock;
    const deadlineMs = clock.nowMs() + operationTimeoutMs;
    const timeoutMs = requestTimeoutMs + waitMs;
    for (let delayMs = FIRST_RETRY_MS; ; delayMs *= 2) {
      signal.throwIfAborted();
      try {
        return await withDeadline({ clock, timeoutMs, signal, lateMessage: `no answer within ${timeoutMs} ms` }, call);
      } catch (thrown) {
        signal.throwIfAborted();
        const error = this.#explain(thrown);
        if (error.code !== 'unavailable' || clock.nowMs() + delayMs >= deadlineMs) throw error;
        await clock.sleep(delayMs, signal);
      }
    }
  }

  #explain(thrown: unknown): QueueError {
    if (thrown instanceof QueueError) return thrown;
    const { queueUrl } = this.#options;
    const name = thrown instanceof Error ? thrown.name : '';
    const reason = reasonOf(thrown).replaceAll(/\s+/g, ' ');
    if (FOR_GOOD.test(name)) {
      const hint = 'Check STATOR_PLANNER_QUEUE_URL and the rights on the queue';
      return new QueueError('misconfigured', `SQS refused queue ${queueUrl}: ${reason}. ${hint}`, thrown);
    }
    const hint = 'Check the network, AWS_REGION and STATOR_SQS_ENDPOINT';
    return new QueueError('unavailable', `cannot reach SQS for queue ${queueUrl}: ${reason}. ${hint}`, thrown);
  }
}

/** Splits messages into requests: at most ten messages, and at most the size of one request. */
function batches(messages: readonly OutgoingMessage[]): readonly (readonly OutgoingMessage[])[] {
  const out: OutgoingMessage[][] = [];
  let bytes = 0;
  for (const message of messages) {
    const size = Buffer.byteLength(message.body);
    const open = out.at(-1);
    if (open === undefined || open.length >= BATCH_MAX || bytes + size > MESSAGE_BYTES_MAX) {
      out.push([message]);
      bytes = size;
    } else {
      open.push(message);
      bytes += size;
    }
  }
  return out;
}
