import type { Clock, Timer } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';

interface EventWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time after the first output of a prompt within which its blocks must be reported. @default 5000 */
  readonly waitMs?: number | undefined;
  /**
   * Called when no event has come in a fifth of that time. If an engine connects to the subscriber, its first events
   * are lost until it is connected.
   */
  onDoubt?(): void;
}

const WAIT_MS = 5000;
const DOUBT_SHARE = 0.2;
/** Number of blocks that a prompt must fill before missing events mean something: engines hold the last one back. */
const BLOCKS_MIN = 3;

/**
 * Watches whether the KV events that an engine was configured to publish arrive. Without them routing by cache is
 * blind, and nothing else shows it.
 *
 * | State | first prompt of some blocks has output | events arrive |
 * |---|---|---|
 * | unproven | checks twice after a while: none -> `onDoubt`, then silent | -> proven |
 * | silent | - | -> proven, reported |
 * | proven | - | - |
 */
export class EventWatch {
  readonly #options: EventWatchOptions;
  #fault: string | undefined;
  #listener: ((fault: string | undefined) => void) | undefined;
  #isProven = false;
  #timer: Timer | undefined;

  constructor(options: EventWatchOptions) {
    this.#options = options;
  }

  /** Calls `listener` with the fault, now and whenever it changes; undefined = none. */
  listen(listener: (fault: string | undefined) => void): void {
    this.#listener = listener;
    if (this.#fault !== undefined) listener(this.#fault);
  }

  /** Reports that the events cannot be followed, for the given reason. */
  cannotFollow(why: string): void {
    this.#report(why);
  }

  /** Notes the first output of a prompt that fills `blocks` blocks. */
  answered(blocks: number): void {
    if (this.#isProven || this.#timer !== undefined || blocks < BLOCKS_MIN) return;
    const { clock, waitMs = WAIT_MS } = this.#options;
    const why = `no usable event arrived within ${waitMs} ms of the answer to a prompt of ${blocks} blocks`;
    const doubtMs = waitMs * DOUBT_SHARE;
    this.#timer = clock.after(doubtMs, () => {
      this.#options.onDoubt?.();
      this.#timer = clock.after(waitMs - doubtMs, () => this.#report(why)); // once: there is no later check
    });
  }

  /** Notes that usable events have arrived. */
  came(): void {
    if (this.#isProven) return;
    this.#isProven = true;
    this.#timer?.cancel();
    if (this.#fault === undefined) return;
    this.#fault = undefined;
    this.#options.logger.info('KV events of the engine arrive again');
    this.#listener?.(undefined);
  }

  close(): void {
    this.#isProven = true;
    this.#timer?.cancel();
    this.#listener = undefined;
  }

  #report(why: string): void {
    if (this.#isProven) return;
    this.#fault = why;
    this.#options.logger.warn('no KV events arrive from the engine: requests are routed as if its cache were empty', {
      reason: why,
    });
    this.#listener?.(why);
  }
}
