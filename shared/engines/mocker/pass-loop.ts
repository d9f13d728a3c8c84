import type { Clock, Timer } from '../../clock/index.ts';
import type { Scheduler } from './scheduler.ts';

/** Passes may end this much after their time before the schedule gives up catching up with the clock. */
const LAG_MAX_MS = 1000;
/** A pass counts as due this much before its time, as the shortest timer takes 1 ms. What comes early does not add up either. */
const EARLY_MS_MAX = 0.05;

/** Runs a callback on a later turn of the event loop. */
export type Defer = (callback: () => void) => void;

/**
 * Runs the passes of one rank back to back while there is work.
 *
 * A pass ends at a time counted from the end of the pass before it, not from when a timer happened to fire, so late timers
 * add up to nothing. Passes that are due already, because a timer was late or because a huge speed-up makes them take no
 * time, run one a turn: everything one pass makes is written in one turn, and sockets are served between passes.
 */
export class PassLoop {
  readonly #scheduler: Scheduler;
  readonly #clock: Clock;
  readonly #defer: Defer;
  readonly #onPassEnd: (passMs: number) => void;
  #passMs = 0;
  #isAwake = false;
  #isStopped = false;
  #inPass = false;
  #passEndMs = 0;
  #timer: Timer | undefined;
  readonly #turn = (): void => this.#runTurn();

  constructor(scheduler: Scheduler, clock: Clock, defer: Defer, onPassEnd: (passMs: number) => void) {
    this.#scheduler = scheduler;
    this.#clock = clock;
    this.#defer = defer;
    this.#onPassEnd = onPassEnd;
  }

  /** There may be work, or room for it. What is submitted in the same turn shares the first pass. */
  wake(): void {
    if (this.#isAwake || this.#isStopped) return;
    this.#isAwake = true;
    this.#passEndMs = this.#clock.nowMs();
    this.#defer(this.#turn);
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #runTurn(): void {
    if (this.#isStopped) return;
    const nowMs = this.#clock.nowMs();
    if (this.#inPass && this.#passEndMs - nowMs <= EARLY_MS_MAX) {
      this.#inPass = false;
      this.#scheduler.finishPass();
      this.#onPassEnd(this.#passMs);
    }
    if (!this.#inPass) {
      if (this.#scheduler.isIdle) {
        this.#isAwake = false;
        return;
      }
      this.#inPass = true;
      this.#passMs = this.#scheduler.startPass();
      this.#passEndMs = Math.max(this.#passEndMs, nowMs - LAG_MAX_MS) + this.#passMs;
      if (this.#scheduler.runningCount === 0) {
        this.#scheduler.finishPass(); // the blocks of finished prompts are in the way
        this.#inPass = this.#isAwake = false;
        return;
      }
    }
    const waitMs = this.#passEndMs - nowMs;
    if (waitMs <= EARLY_MS_MAX) this.#defer(this.#turn);
    else this.#timer = this.#clock.after(waitMs, this.#turn);
  }
}
