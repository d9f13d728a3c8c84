/** Message of a FIFO queue, as Lambda hands it over. */
export interface QueueRecord {
  readonly messageId: string;
  /** Message group: the model that the message is about. */
  readonly group: string;
  readonly body: string;
  /** Time at which the queue took it, in Unix milliseconds. */
  readonly sentAtMs: number;
}

interface QueueBatchOptions {
  /** Handles the messages of one group, in their order: all of them, or none if it rejects. */
  handle(group: string, messages: readonly QueueRecord[], signal: AbortSignal): Promise<unknown>;
  /** Hears of a group whose messages come again, for the log: a `PlannerConflict`, or a store that is away. */
  onFailed(group: string, reason: unknown): void;
}

/**
 * Handles a batch of a queue, group by group. If a group fails, none of its messages was acknowledged, so all of them
 * from the first on are failures: the queue keeps their order. Groups that succeeded before or after are acknowledged.
 *
 * @returns ids of the messages that the queue must hand out again
 */
export async function handleQueueBatch(
  records: readonly QueueRecord[],
  { handle, onFailed }: QueueBatchOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const groups = new Map<string, QueueRecord[]>();
  for (const record of records) groups.set(record.group, [...(groups.get(record.group) ?? []), record]);
  const failures: string[] = [];
  for (const [group, messages] of groups) {
    try {
      signal.throwIfAborted(); // the function's time is over: the other groups come again
      await handle(group, messages, signal);
    } catch (thrown) {
      onFailed(group, thrown);
      failures.push(...messages.map(({ messageId }) => messageId));
    }
  }
  return failures;
}
