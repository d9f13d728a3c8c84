import type { ReceivedMessage, SqsPlannerQueue } from '../../../shared/planes/index.ts';
import type { LambdaRuntime } from '../lambda-runtime.ts';
import { queueEvent } from './queue-event.ts';

interface QueuePumpOptions {
  readonly queue: SqsPlannerQueue;
  readonly planner: Pick<LambdaRuntime, 'answerTo'>;
  /** Time after which the messages of a batch that failed come again: minutes in a deployment. */
  readonly hiddenMs: number;
  /** Called after each batch of which the function has taken messages. @default nothing */
  readonly onTaken?: () => void;
}

const NEVER = new AbortController().signal;
const WAIT_MS = 1000;

/** Hands the messages of a queue to the planner's function, as Lambda's poller does. */
export class QueuePump {
  /** Bodies of all messages that the function has taken. */
  readonly taken: Readonly<Record<string, unknown>>[] = [];
  /** Batches that the function failed. */
  failures = 0;
  readonly #options: QueuePumpOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(options: QueuePumpOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the bed ends'));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { queue, hiddenMs } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const batch = await queue.receive({ waitMs: WAIT_MS, hiddenMs }, signal).catch((thrown: unknown) => {
        if (signal.aborted) return [];
        throw thrown;
      });
      if (batch.length > 0) await queue.delete(await this.#hand(batch), NEVER);
    }
  }

  /** Returns the messages of a batch that the function has taken. */
  async #hand(batch: readonly ReceivedMessage[]): Promise<readonly ReceivedMessage[]> {
    try {
      const answer = await this.#options.planner.answerTo(queueEvent(batch));
      const { batchItemFailures } = answer as { batchItemFailures: readonly { itemIdentifier: string }[] };
      const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      const done = batch.filter(({ id }) => !failed.has(id));
      this.taken.push(...done.map(({ body }) => JSON.parse(body) as Record<string, unknown>));
      if (done.length > 0) this.#options.onTaken?.();
      return done;
    } catch {
      this.failures++;
      return []; // the function was killed: the queue hands out all of them again
    }
  }
}
