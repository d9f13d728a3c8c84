import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { PlannerQueue } from '../../planes/index.ts';
import { deduplicationIdOf, groupOf, PLANNER_EVENT_VERSION, type PlannerEventOf } from '../../protocol/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { type HeldNote, type HeldNotes, NOTE_EVERY_MS } from './types.ts';

export interface HeldWakerOptions {
  readonly notes: Pick<HeldNotes, 'live'>;
  readonly queue: Pick<PlannerQueue, 'send'>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
  /** Called with each sum that the queue has taken. */
  onTold(model: string, count: number): void;
}

/** Source of all sums: planners count each source of held requests once. */
const SOURCE = 'functions';
/** Epoch of all sums; their number is the time. */
const EPOCH = 'functions';
/** Models whose last sum is remembered. */
const GROUPS_MAX = 1000;

/**
 * Tells planners how many requests all functions together hold: one `request.held` for each model and 5 s. The number
 * of an event is the number of its 5 s since 1970, so that the queue takes the sums of several processes as one.
 */
export class HeldWaker {
  readonly #options: HeldWakerOptions;
  /** Number of the last 5 s in which a sum was sent, by group. */
  readonly #told = new BoundedMap<string, number>(GROUPS_MAX);

  constructor(options: HeldWakerOptions) {
    this.#options = options;
  }

  /** Tells what is held in the groups. Returns the groups that could not be told. */
  async wake(groups: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const failed: string[] = [];
    await inBatches([...new Set(groups)], async (group) => {
      try {
        await this.#tell(group, signal);
      } catch (thrown) {
        // Its records come again, because the caller names the group.
        failed.push(group);
        this.#options.logger.warn('the planner was not told of held requests', { group, reason: reasonOf(thrown) });
      }
    });
    return failed;
  }

  async #tell(group: string, signal: AbortSignal): Promise<void> {
    const { notes, queue, clock, logger, onTold } = this.#options;
    const number = Math.floor(clock.wallMs() / NOTE_EVERY_MS);
    if (this.#told.get(group) === number) return;
    const event = sumOf(await notes.live(group, signal), number);
    if (event === undefined) return;
    const message = { group: groupOf(event), deduplicationId: deduplicationIdOf(event), body: JSON.stringify(event) };
    await queue.send([message], signal);
    this.#told.set(group, number);
    onTold(event.model, event.held_count);
    logger.info('told the planner of held requests', { group, requests: event.held_count });
  }
}

/** Returns the event that stands for all notes of a model; undefined if nothing is held. */
function sumOf(notes: readonly HeldNote[], seq: number): PlannerEventOf<'request.held'> | undefined {
  const [first] = notes;
  if (first === undefined) return undefined;
  return {
    type: 'request.held',
    v: PLANNER_EVENT_VERSION,
    namespace: first.namespace,
    model: first.model,
    source: SOURCE,
    held_count: notes.reduce((sum, { count }) => sum + count, 0),
    oldest_at: Math.min(...notes.map(({ oldestAtMs }) => oldestAtMs)),
    epoch: EPOCH,
    seq,
  };
}
