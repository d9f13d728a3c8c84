/** A message to send. */
export interface OutgoingMessage {
  /** Messages of one group are handled in the order in which they were sent, and never two batches at a time. 1 to 128 visible ASCII characters, as the id. */
  readonly group: string;
  /** Two messages of a group with the same id within five minutes are one. */
  readonly deduplicationId: string;
  /** At most 256 KiB. */
  readonly body: string;
}

/** A message as it was received. */
export interface ReceivedMessage {
  /** For tests: what it was sent as. */
  readonly id: string;
  /** For tests: the group that it was sent to. */
  readonly group: string;
  readonly body: string;
  /** When the queue took it, by the queue's own clock: Unix milliseconds. */
  readonly sentAtMs: number;
  /** Its group is handed out again once all messages of the batch are deleted or their time is over. */
  readonly receipt: string;
}

/**
 * Carries events of a model to whoever plans for it. First in, first out within a group; each message once, and again where
 * whoever took it did not delete it in time. Calls reject with `QueueError`, or with the signal's reason.
 */
export interface PlannerQueue {
  readonly name: 'sqs' | 'memory';
  /** Sends all, at most ten a request. Resolves once the queue has them; a call that is repeated sends nothing twice. */
  send(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<void>;
  /**
   * For tests: up to ten messages that are hidden from others for `hiddenMs`; an empty list when none came within `waitMs`. A
   * function that plans is handed its messages by Lambda.
   */
  receive(options: ReceiveOptions, signal: AbortSignal): Promise<readonly ReceivedMessage[]>;
  /** For tests: they are dealt with. */
  delete(messages: readonly ReceivedMessage[], signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface ReceiveOptions {
  /** At most 20,000. */
  readonly waitMs: number;
  /** At least a second. */
  readonly hiddenMs: number;
  /** @default 10 */
  readonly messagesMax?: number;
}

/** What went wrong: `unavailable` may pass, `misconfigured` will not by itself, `refused` is the caller's mistake. */
export type QueueErrorCode = 'unavailable' | 'misconfigured' | 'refused';

/** A failure of a queue, in one line that says what to do. */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  readonly code: QueueErrorCode;

  constructor(code: QueueErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

export const MESSAGE_BYTES_MAX = 256 * 1024;
/** Messages of one request. */
export const BATCH_MAX = 10;

/** @throws QueueError for what no queue takes */
export function checkMessage({ body, group, deduplicationId }: OutgoingMessage): void {
  const bytes = Buffer.byteLength(body);
  if (bytes > MESSAGE_BYTES_MAX) {
    throw new QueueError('refused', `a message of ${bytes} bytes is longer than ${MESSAGE_BYTES_MAX}`);
  }
  if (body === '') throw new QueueError('refused', 'a message is empty');
  for (const [what, name] of [
    ['group', group],
    ['id', deduplicationId],
  ] as const) {
    if (NAME.test(name)) continue;
    const allowed = 'letters, digits and punctuation of ASCII, 1 to 128 of them';
    throw new QueueError(
      'refused',
      `a message's ${what} is ${JSON.stringify(name).slice(0, 160)}; allowed: ${allowed}`,
    );
  }
}

const NAME = /^[!-~]{1,128}$/;
