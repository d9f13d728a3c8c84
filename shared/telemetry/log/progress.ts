import { type Clock, systemClock } from '../../clock/index.ts';

/** Output that shows progress. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** Milliseconds between two lines if the output is not a terminal, because lines in a file stay. */
const LINE_EVERY_MS = 10_000;
const CLEAR_LINE = '\r\u001b[2K';

/** Shows the progress of long work: one changing line on a terminal, and a line every ten seconds elsewhere. */
export class Progress {
  readonly #output: ProgressOutput;
  readonly #clock: Clock;
  #toldMs: number;
  #isShown = false;

  constructor(output: ProgressOutput, clock: Clock = systemClock) {
    this.#output = output;
    this.#clock = clock;
    this.#toldMs = clock.nowMs();
  }

  tell(text: string): void {
    if (this.#output.isTTY === true) {
      const { columns = 80 } = this.#output;
      this.#output.write(CLEAR_LINE + text.slice(0, columns - 1)); // a line that wraps could not be taken back
      this.#isShown = true;
      return;
    }
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#toldMs < LINE_EVERY_MS) return;
    this.#toldMs = nowMs;
    this.#output.write(`stator: ${text}\n`);
  }

  /** Removes the line, because results follow. */
  end(): void {
    if (this.#isShown) this.#output.write(CLEAR_LINE);
    this.#isShown = false;
  }
}
