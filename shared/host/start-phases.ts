import type { Clock } from '../clock/index.ts';
import { START_PHASES, type StartPhase } from '../protocol/index.ts';

/** Listener to a start. */
interface StartListener {
  began(phase: StartPhase): void;
  ended(phase: StartPhase, seconds: number): void;
}

/** Lines by which engines say that they compile or capture graphs, and that they listen. */
const COMPILES =
  /torch\.compile|[Cc]apturing (?:the )?(?:CUDA|cuda) ?graphs?|Capture (?:cuda|CUDA) ?graph|Start compiling/;
const LISTENS = /Application startup complete|The server is fired up|Uvicorn running on/;

/**
 * Measures the phases of a start. Phases follow each other; one that an engine does not have takes no time. The phases
 * of several workers are those of the last one that reaches them.
 */
export class StartPhases {
  readonly #clock: Clock;
  readonly #listener: StartListener;
  #current: StartPhase | undefined;
  #sinceMs = 0;

  constructor(clock: Clock, listener: StartListener) {
    this.#clock = clock;
    this.#listener = listener;
  }

  /** The phase under way; undefined = no start is under way. */
  get current(): StartPhase | undefined {
    return this.#current;
  }

  /** Reports the time from the boot to the agent, and begins with the image. */
  begin(bootSecs: number | undefined): void {
    if (bootSecs !== undefined) this.#listener.ended('boot', bootSecs);
    this.#sinceMs = this.#clock.nowMs();
    this.#begin('image');
  }

  /** Ends the current phase, and begins a later one; never goes back. */
  reach(phase: StartPhase): void {
    if (this.#current === undefined || START_PHASES.indexOf(phase) <= START_PHASES.indexOf(this.#current)) return;
    this.#end();
    this.#begin(phase);
  }

  /** Looks for the phases in what an engine writes. */
  readOutput(text: string): void {
    if (this.#current === undefined) return;
    if (COMPILES.test(text)) this.reach('compile');
    if (LISTENS.test(text)) this.reach('register');
  }

  /** Ends the start. */
  finish(): void {
    if (this.#current === undefined) return;
    this.#end();
    this.#current = undefined;
  }

  /** Drops a start that is given up, without a time for its last phase. */
  giveUp(): void {
    this.#current = undefined;
  }

  #begin(phase: StartPhase): void {
    this.#current = phase;
    this.#listener.began(phase);
  }

  #end(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#current !== undefined) this.#listener.ended(this.#current, (nowMs - this.#sinceMs) / 1000);
    this.#sinceMs = nowMs;
  }
}
