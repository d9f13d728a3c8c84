import type { Clock, Timer } from '../../clock/index.ts';
import { OpenOnce, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { HeldNoteMetrics, Logger } from '../../telemetry/index.ts';
import { type HeldNote, type HeldNotes, NOTE_EVERY_MS } from './types.ts';

export interface HeldReporterOptions {
  /** Opens the store. Called with the first note; after a failure the next note opens it again. */
  readonly open: () => Promise<HeldNotes>;
  /** Id of this process among those that write. */
  readonly holder: string;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
  readonly metrics: HeldNoteMetrics;
}

/** Longest time of one call, in milliseconds. A store that takes longer counts as failed. */
const CALL_MS_MAX = 1500;

/** Models whose last write is remembered after their requests have gone. */
const MODELS_MAX = 256;

/** State of one model: what this process holds of it, and what the store has. */
interface Reported {
  /** Note that the store should have; undefined = none. */
  wanted: HeldNote | undefined;
  /** Whether the wanted note is not written yet. */
  isDue: boolean;
  /** Note that the store may have: a write whose answer was lost may have arrived. */
  stored: HeldNote | undefined;
  /** Time of the next write, if it is not allowed yet. */
  timer: Timer | undefined;
  isWorking: boolean;
  /** Calls under way; never rejects. */
  working: Promise<void>;
}

/**
 * Notes what this process holds, in the background: no request waits for a note, and none fails with one. It writes a
 * note of a model at most every 5 s, and removes it when nothing is held. A write that failed is not repeated, because
 * the next one is due in 5 s. While nothing is held, no timer is armed, and soon no call is under way, so that a host
 * may freeze the process.
 */
export class HeldReporter {
  readonly #options: HeldReporterOptions;
  readonly #models = new Map<string, Reported>(); // a model leaves once nothing is held and its note is removed
  /** `Clock.nowMs` of the last write of each model. */
  readonly #putAtMs = new BoundedMap<string, number>(MODELS_MAX);
  readonly #notes: OpenOnce<HeldNotes>;
  #isAway = false;

  constructor(options: HeldReporterOptions) {
    this.#options = options;
    this.#notes = new OpenOnce(options.open);
  }

  /** Takes what is held of a model now. @param name any name of the model, the same one for `ends` */
  holds(name: string, note: HeldNote): void {
    const reported = this.#models.get(name) ?? newReport();
    this.#models.set(name, reported);
    reported.wanted = note;
    reported.isDue = true;
    this.#work(name, reported);
  }

  /** Takes note that nothing of a model is held any more. */
  ends(name: string): void {
    const reported = this.#models.get(name);
    if (reported === undefined) return;
    reported.wanted = undefined;
    reported.isDue = false;
    this.#work(name, reported);
  }

  /** Resolves once no call is under way, in bounded time. */
  async settled(): Promise<void> {
    await Promise.all([...this.#models.values()].map(({ working }) => working));
  }

  /** Removes all notes, in bounded time. */
  async close(): Promise<void> {
    for (const name of [...this.#models.keys()]) this.ends(name);
    await this.settled();
    const { clock, logger } = this.#options;
    try {
      await withDeadline({ clock, timeoutMs: CALL_MS_MAX }, () => this.#notes.close());
    } catch (thrown) {
      // The process ends anyway, and its notes are soon too old to count.
      logger.warn('the store of held requests does not close', { reason: reasonOf(thrown) });
    }
  }

  #work(name: string, reported: Reported): void {
    reported.timer?.cancel();
    reported.timer = undefined;
    if (reported.isWorking) return;
    reported.isWorking = true;
    reported.working = this.#settle(name, reported);
  }

  /** Makes the calls that are due, one after the other. */
  async #settle(name: string, reported: Reported): Promise<void> {
    try {
      for (;;) {
        const { wanted, stored } = reported;
        if (wanted !== undefined) {
          if (!this.#mayPut(name, reported)) return;
          await this.#put(name, reported, wanted);
        } else if (stored === undefined) {
          this.#models.delete(name);
          return;
        } else {
          reported.stored = undefined; // a note that cannot be removed soon is too old to count
          await this.#call('removed', (notes, holder, signal) => notes.remove(holder, stored, signal));
        }
      }
    } finally {
      reported.isWorking = false; // in the same turn as the last look, so that no change is missed
    }
  }

  /** Returns whether the wanted note may be written now. Arms a timer if it may be written later. */
  #mayPut(name: string, reported: Reported): boolean {
    if (!reported.isDue) return false;
    const { clock } = this.#options;
    const leftMs = (this.#putAtMs.get(name) ?? Number.NEGATIVE_INFINITY) + NOTE_EVERY_MS - clock.nowMs();
    if (leftMs <= 0) return true;
    reported.timer = clock.after(leftMs, () => this.#work(name, reported));
    return false;
  }

  #put(name: string, reported: Reported, note: HeldNote): Promise<void> {
    reported.isDue = false;
    reported.stored = note;
    this.#putAtMs.set(name, this.#options.clock.nowMs());
    return this.#call('written', (notes, holder, signal) => notes.put(holder, note, signal));
  }

  async #call(
    outcome: 'written' | 'removed',
    work: (notes: HeldNotes, holder: string, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { clock, holder, logger, metrics } = this.#options;
    try {
      await withDeadline({ clock, timeoutMs: CALL_MS_MAX }, async (signal) =>
        work(await this.#notes.get(), holder, signal),
      );
      metrics.noted(outcome);
      if (this.#isAway) logger.info('held requests are noted again');
      this.#isAway = false;
    } catch (thrown) {
      // Requests wait on, and the planner hears of them from other environments, or at the next write.
      metrics.noted('failed');
      if (!this.#isAway) logger.warn('held requests cannot be noted for the planner', { reason: reasonOf(thrown) });
      this.#isAway = true;
    }
  }
}

function newReport(): Reported {
  return {
    wanted: undefined,
    isDue: false,
    stored: undefined,
    timer: undefined,
    isWorking: false,
    working: Promise.resolve(),
  };
}
