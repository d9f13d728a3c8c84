import type { Clock } from '../../shared/clock/index.ts';
import {
  BATCH_MAX,
  checkMessage,
  type OutgoingMessage,
  type PlannerQueue,
  QueueError,
  type ReceivedMessage,
  type ReceiveOptions,
} from '../../shared/planes/queue/types.ts';

const DEDUPLICATION_MS = 5 * 60_000;
/** Most waiting messages. Beyond that the oldest are dropped, because newer signals replace them. */
const MESSAGES_MAX = 10_000;

interface Kept {
  readonly id: string;
  readonly message: OutgoingMessage;
  readonly sentAtMs: number;
  hiddenUntilMs: number;
  receipt: number;
}

/** A queue within one process, for a planner beside its fleet and for tests. */
export class MemoryPlannerQueue implements PlannerQueue {
  readonly name = 'memory';
  readonly #clock: Clock;
  #kept: Kept[] = [];
  /**
   * End of the time during which a second message with the id is a duplicate. The messages of five minutes and
   * `MESSAGES_MAX` bound the map.
   */
  readonly #seen = new Map<string, number>();
  #count = 0;
  #receipts = 0;
  #dropped = 0;
  #arrived: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of messages dropped for lack of room. */
  get dropped(): number {
    return this.#dropped;
  }

  async send(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    for (const message of messages) checkMessage(message);
    this.#forget();
    const nowMs = this.#clock.nowMs();
    for (const message of messages) {
      const key = `${message.group}\n${message.deduplicationId}`;
      if ((this.#seen.get(key) ?? 0) > nowMs) continue;
      this.#seen.set(key, nowMs + DEDUPLICATION_MS);
      const id = `m${this.#count++}`;
      this.#kept.push({ id, message, sentAtMs: this.#clock.wallMs(), hiddenUntilMs: 0, receipt: 0 });
    }
    const surplus = this.#kept.length - MESSAGES_MAX;
    if (surplus > 0) {
      this.#kept.splice(0, surplus);
      this.#dropped += surplus;
    }
    this.#arrived();
  }

  async receive(
    { waitMs, hiddenMs, messagesMax = BATCH_MAX }: ReceiveOptions,
    signal: AbortSignal,
  ): Promise<readonly ReceivedMessage[]> {
    signal.throwIfAborted();
    const untilMs = this.#clock.nowMs() + waitMs;
    for (;;) {
      const taken = this.#take(hiddenMs, Math.min(BATCH_MAX, messagesMax));
      const nowMs = this.#clock.nowMs();
      if (taken.length > 0 || nowMs >= untilMs) return taken;
      const nextMs = Math.min(untilMs, ...this.#kept.map((each) => Math.max(nowMs + 1, each.hiddenUntilMs)));
      await this.#somethingNew(nextMs - nowMs, signal);
    }
  }

  async delete(messages: readonly ReceivedMessage[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const receipts = new Set(messages.map(({ receipt }) => receipt));
    this.#kept = this.#kept.filter((each) => !receipts.has(`${each.id}/${each.receipt}`));
    this.#arrived(); // frees a group, so another reader may take from it
  }

  async close(): Promise<void> {
    this.#kept = [];
    this.#seen.clear();
  }

  /** Takes messages from a group that no reader works on: the one whose first message is oldest. */
  #take(hiddenMs: number, countMax: number): readonly ReceivedMessage[] {
    if (hiddenMs < 1000)
      throw new QueueError('refused', `messages must be hidden for at least a second, got ${hiddenMs} ms`);
    const nowMs = this.#clock.nowMs();
    const busy = new Set(this.#kept.filter((each) => each.hiddenUntilMs > nowMs).map(({ message }) => message.group));
    const first = this.#kept.find(({ message }) => !busy.has(message.group));
    if (first === undefined) return [];
    const batch = this.#kept.filter(({ message }) => message.group === first.message.group).slice(0, countMax);
    return batch.map((each) => {
      each.hiddenUntilMs = nowMs + hiddenMs;
      each.receipt = ++this.#receipts;
      const { id, message, sentAtMs } = each;
      return { id, group: message.group, body: message.body, sentAtMs, receipt: `${id}/${each.receipt}` };
    });
  }

  async #somethingNew(waitMs: number, signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    const either = AbortSignal.any([signal, waiting.signal]);
    const before = this.#arrived;
    this.#arrived = () => {
      before();
      waiting.abort();
    };
    await this.#clock.sleep(waitMs, either).catch(() => signal.throwIfAborted()); // wakes early when a message arrives
    this.#arrived = before;
  }

  #forget(): void {
    const nowMs = this.#clock.nowMs();
    for (const [key, untilMs] of this.#seen) {
      if (untilMs > nowMs && this.#seen.size <= MESSAGES_MAX) return; // oldest first
      this.#seen.delete(key);
    }
  }
}
