import type { Clock } from '../clock/index.ts';

/** Phases of a start in their order. `capacity` comes before them, and only the planner sees it. */
export const START_PHASES = ['boot', 'image', 'weights', 'engine', 'compile', 'register'] as const;

export type StartPhase = (typeof START_PHASES)[number];

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
  readonly #onEnd: (phase: StartPhase, seconds: number) => void;
  #current: StartPhase | undefined;
  #sinceMs = 0;

  constructor(clock: Clock, onEnd: (phase: StartPhase, seconds: number) => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  /** The phase under way; undefined = no start is under way. */
  get current(): StartPhase | undefined {
    return this.#current;
  }

  /** Reports the time from the boot to the agent, and begins with the image. */
  begin(bootSecs: number | undefined): void {
    if (bootSecs !== undefined) this.#onEnd('boot', bootSecs);
    this.#current = 'image';
    this.#sinceMs = this.#clock.nowMs();
  }

  /** Ends the current phase, and begins a later one; never goes back. */
  reach(phase: StartPhase): void {
    if (this.#current === undefined || START_PHASES.indexOf(phase) <= START_PHASES.indexOf(this.#current)) return;
    this.#end();
    this.#current = phase;
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

  #end(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#current !== undefined) this.#onEnd(this.#current, (nowMs - this.#sinceMs) / 1000);
    this.#sinceMs = nowMs;
  }
}
