import type { Clock, Timer } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';

interface EventWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long after the first output of a prompt its blocks may be told. @default 5000 */
  readonly waitMs?: number | undefined;
  /** None has come in a fifth of that time: the first of an engine that connects is lost where it speaks before it is connected. */
  onDoubt?(): void;
}

const WAIT_MS = 5000;
const DOUBT_SHARE = 0.2;
/** Blocks that a prompt fills for certain before its silence says something: engines keep the last one back. */
const BLOCKS_MIN = 3;

/**
 * Watches whether the KV events come that an engine was asked for. Without them routing by cache is blind, and nothing else shows it.
 *
 * | State | first prompt of some blocks has output | events come |
 * |---|---|---|
 * | unproven | looks twice after a while: none -> `onDoubt`, then silent | -> proven |
 * | silent | - | -> proven, told |
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

  /** Runs `listener` with what is wrong, now and whenever that changes; undefined = nothing. */
  listen(listener: (fault: string | undefined) => void): void {
    this.#listener = listener;
    if (this.#fault !== undefined) listener(this.#fault);
  }

  /** Nobody can follow them, for the reason given. */
  cannotFollow(why: string): void {
    this.#tell(why);
  }

  /** The first output of a prompt has come that fills so many blocks. */
  answered(blocks: number): void {
    if (this.#isProven || this.#timer !== undefined || blocks < BLOCKS_MIN) return;
    const { clock, waitMs = WAIT_MS } = this.#options;
    const why = `none that can be used came within ${waitMs} ms of the answer to a prompt of ${blocks} blocks`;
    const doubtMs = waitMs * DOUBT_SHARE;
    this.#timer = clock.after(doubtMs, () => {
      this.#options.onDoubt?.();
      this.#timer = clock.after(waitMs - doubtMs, () => this.#tell(why)); // once: nothing is looked at again
    });
  }

  /** Events that can be used have come. */
  came(): void {
    if (this.#isProven) return;
    this.#isProven = true;
    this.#timer?.cancel();
    if (this.#fault === undefined) return;
    this.#fault = undefined;
    this.#options.logger.info('KV events of the engine come again');
    this.#listener?.(undefined);
  }

  close(): void {
    this.#isProven = true;
    this.#timer?.cancel();
    this.#listener = undefined;
  }

  #tell(why: string): void {
    if (this.#isProven) return;
    this.#fault = why;
    this.#options.logger.warn('KV events of the engine do not come: requests are routed as if its cache were empty', {
      reason: why,
    });
    this.#listener?.(why);
  }
}
