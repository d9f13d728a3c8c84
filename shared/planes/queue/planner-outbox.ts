import type { Clock } from '../../clock/index.ts';
import { forAtMost, untilAborted } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { deduplicationIdOf, groupOf, type PlannerSignal, sourceOf } from '../../protocol/index.ts';
import type { Logger, PlannerQueueMetrics } from '../../telemetry/index.ts';
import { BATCH_MAX, MESSAGE_BYTES_MAX, type OutgoingMessage, type PlannerQueue, QueueError } from './types.ts';

export interface PlannerOutboxOptions {
  readonly queue: PlannerQueue;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  readonly metrics: PlannerQueueMetrics;
}

interface Waiting {
  readonly type: PlannerSignal['type'];
  readonly message: OutgoingMessage;
  readonly putAtMs: number;
}

/** Largest number of waiting events; beyond it the oldest are dropped. */
const WAITING_MAX = 1000;
/** Age after which an unsent event no longer describes the present. */
const AGE_MS_MAX = 60_000;
const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 5000;
/** Pause after failures that waiting does not heal: missing rights, a queue that does not exist. */
const REFUSED_PAUSE_MS = 15_000;

/**
 * Sends events to the planner's queue in the background: `put` never waits and never throws. While the queue is
 * unreachable, the newest event of a kind and source replaces the older ones and takes over their counts. Events that
 * cannot be sent are counted and logged.
 */
export class PlannerOutbox {
  readonly #options: PlannerOutboxOptions;
  /** Waiting events by kind and source, the oldest first. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #ended = new AbortController();
  #sending: Promise<void> | undefined;
  #isAway = false;

  constructor(options: PlannerOutboxOptions) {
    this.#options = options;
  }

  put(event: PlannerSignal): void {
    const { clock, logger, metrics } = this.#options;
    if (this.#ended.signal.aborted) return;
    const body = JSON.stringify(event);
    const bytes = Buffer.byteLength(body);
    const facts = { type: event.type, model: event.model };
    if (bytes > MESSAGE_BYTES_MAX) {
      metrics.ended('too_long', 1);
      logger.error('an event is too long for the planner queue', { ...facts, bytes, bytes_max: MESSAGE_BYTES_MAX });
      return;
    }
    const message = { group: groupOf(event), deduplicationId: deduplicationIdOf(event), body };
    const key = [event.type, event.namespace, event.model, sourceOf(event)].join('\n');
    if (this.#waiting.delete(key)) metrics.ended('superseded', 1);
    this.#waiting.set(key, { type: event.type, message, putAtMs: clock.nowMs() });
    if (this.#waiting.size > WAITING_MAX) this.#drop('no_room', this.#oldest(this.#waiting.size - WAITING_MAX));
    metrics.waiting(this.#waiting.size);
    this.#sending ??= this.#send(); // never rejects
  }

  /** Drops waiting events of a kind, which this process no longer has to send. */
  withdraw(type: PlannerSignal['type']): void {
    const keys = [...this.#waiting].flatMap(([key, waiting]) => (waiting.type === type ? [key] : []));
    this.#drop('handed_over', keys);
  }

  /** Resolves once no event waits any more, or rejects with the signal's reason. */
  async flush(signal: AbortSignal): Promise<void> {
    while (this.#sending !== undefined) {
      signal.throwIfAborted();
      await untilAborted(this.#sending, signal);
    }
  }

  /** Sends the waiting events for at most `timeoutMs`, and closes the queue. */
  async close(timeoutMs: number): Promise<void> {
    const { clock, queue } = this.#options;
    const isSent = await forAtMost({ clock, timeoutMs }, (signal) => this.flush(signal));
    if (!isSent) this.#drop('no_time', [...this.#waiting.keys()]);
    this.#ended.abort(new Error('the outbox is closed'));
    await this.#sending;
    await queue.close();
  }

  async #send(): Promise<void> {
    const { queue, clock, metrics } = this.#options;
    const { signal } = this.#ended;
    await Promise.resolve(); // events of one turn go together
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; ) {
      this.#forget();
      const batch = [...this.#waiting].slice(0, BATCH_MAX);
      if (batch.length === 0) break;
      try {
        const messages = batch.map(([, { message }]) => message);
        await untilAborted(queue.send(messages, signal), signal);
        for (const [key, sent] of batch) if (this.#waiting.get(key) === sent) this.#waiting.delete(key);
        metrics.ended('sent', batch.length);
        metrics.waiting(this.#waiting.size);
        this.#isBack();
        pauseMs = FIRST_PAUSE_MS;
      } catch (thrown) {
        if (signal.aborted) break;
        const isForGood = this.#isLost(thrown);
        await clock.sleep(isForGood ? REFUSED_PAUSE_MS : pauseMs, signal).catch(() => undefined); // it is closed
        pauseMs = Math.min(PAUSE_MS_MAX, 2 * pauseMs);
      }
    }
    this.#sending = undefined;
  }

  /** Whether waiting does not heal the failure. */
  #isLost(thrown: unknown): boolean {
    const { logger, metrics } = this.#options;
    const isForGood = thrown instanceof QueueError && thrown.code !== 'unavailable';
    metrics.failed();
    if (!this.#isAway) {
      const facts = { reason: reasonOf(thrown), waiting: this.#waiting.size };
      logger[isForGood ? 'error' : 'warn']('the planner queue takes no events; trying again', facts);
    }
    this.#isAway = true;
    return isForGood;
  }

  #isBack(): void {
    if (this.#isAway) this.#options.logger.info('the planner queue takes events again');
    this.#isAway = false;
  }

  #forget(): void {
    const oldestMs = this.#options.clock.nowMs() - AGE_MS_MAX;
    let count = 0;
    for (const { putAtMs } of this.#waiting.values()) {
      if (putAtMs >= oldestMs) break;
      count++;
    }
    this.#drop('expired', this.#oldest(count));
  }

  #oldest(count: number): readonly string[] {
    return [...this.#waiting.keys()].slice(0, count);
  }

  #drop(outcome: 'expired' | 'no_room' | 'no_time' | 'handed_over', keys: readonly string[]): void {
    const { logger, metrics } = this.#options;
    if (keys.length === 0) return;
    for (const key of keys) this.#waiting.delete(key);
    metrics.ended(outcome, keys.length);
    metrics.waiting(this.#waiting.size);
    logger.warn('events for the planner were dropped', { events: keys.length, outcome });
  }
}
