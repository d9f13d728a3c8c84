/** A message to send. */
export interface OutgoingMessage {
  /**
   * Group. Messages of one group are handled in the order in which they were sent, and never two batches at the same
   * time. 1 to 128 visible ASCII characters, as the id.
   */
  readonly group: string;
  /** Id. Two messages of a group with the same id within five minutes are one. */
  readonly deduplicationId: string;
  /** Text of at most 256 KiB. */
  readonly body: string;
}

/** A message as it was received. */
export interface ReceivedMessage {
  /** For tests: the id with which it was sent. */
  readonly id: string;
  /** For tests: the group to which it was sent. */
  readonly group: string;
  readonly body: string;
  /** Time when the queue accepted it, by the queue's own clock: Unix milliseconds. */
  readonly sentAtMs: number;
  /**
   * Handle for `delete`. The group is handed out again once all messages of the batch are deleted or their time is
   * over.
   */
  readonly receipt: string;
}

/**
 * Carries events of a model to its planner. First in, first out within a group; each message once, and again if its
 * receiver did not delete it in time. Calls reject with `QueueError`, or with the signal's reason.
 */
export interface PlannerQueue {
  readonly name: 'sqs' | 'memory';
  /**
   * Sends all messages, at most ten per request. Resolves once the queue has them; a repeated call sends nothing twice.
   */
  send(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<void>;
  /**
   * For tests: receives up to ten messages, which are hidden from others for `hiddenMs`. Returns an empty list if none
   * came within `waitMs`. Lambda hands messages to a planner in a function.
   */
  receive(options: ReceiveOptions, signal: AbortSignal): Promise<readonly ReceivedMessage[]>;
  /** For tests: deletes messages that have been dealt with. */
  delete(messages: readonly ReceivedMessage[], signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface ReceiveOptions {
  /** Longest wait, at most 20,000. */
  readonly waitMs: number;
  /** Time for which they are hidden, at least a second. */
  readonly hiddenMs: number;
  /** Largest number of messages. @default 10 */
  readonly messagesMax?: number;
}

/**
 * Kind of a failure: `unavailable` may pass, `misconfigured` will not pass by itself, `refused` is the caller's
 * mistake.
 */
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

/** @throws QueueError for messages that no queue accepts */
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
