import type { Clock, Timer } from '../../clock/index.ts';
import type { Engine, EngineSink } from '../../engines/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';

export interface EngineCanaryOptions {
  readonly engine: Pick<Engine, 'generate'>;
  readonly clock: Clock;
  /** Time without an answer of the engine after which it is probed (`DYN_CANARY_WAIT_TIME`). */
  readonly idleMs: number;
  /** Until the first output of a probe; also the pause after one that failed. */
  readonly timeoutMs: number;
  /** A new probe. */
  request(): EngineRequest;
  /** Probes make no sense now: the engine sleeps, or is known to be down. */
  isSuspended(): boolean;
  /** `failures` in a row. */
  onFailed(failures: number, reason: string): void;
  /** The engine answers again. */
  onPassed(): void;
}

/** Proves an idle engine alive by the smallest request it takes, handed to it without a network. */
export class EngineCanary {
  readonly #options: EngineCanaryOptions;
  readonly #timer: Timer;
  #hasActivity = false;
  #sinceMs: number;
  #failures = 0;
  #stopProbe: (() => void) | undefined;

  constructor(options: EngineCanaryOptions) {
    const { clock, idleMs, timeoutMs } = options;
    this.#options = options;
    this.#sinceMs = clock.nowMs();
    this.#timer = clock.every(Math.min(idleMs, timeoutMs) / 4, () => this.#look());
  }

  /** The engine has answered somebody. Costs one store. */
  noteActivity(): void {
    this.#hasActivity = true;
  }

  stop(): void {
    this.#timer.cancel();
    this.#stopProbe?.();
  }

  #look(): void {
    const { clock, idleMs, timeoutMs, isSuspended } = this.#options;
    if (this.#hasActivity || isSuspended()) {
      if (this.#hasActivity) this.#passed();
      this.#hasActivity = false;
      this.#sinceMs = clock.nowMs();
      return;
    }
    const waitMs = this.#failures > 0 ? timeoutMs : idleMs;
    if (this.#stopProbe === undefined && clock.nowMs() - this.#sinceMs >= waitMs) this.#probe();
  }

  #probe(): void {
    const { engine, clock, timeoutMs } = this.#options;
    const aborter = new AbortController();
    const end = (settle: () => void): void => {
      if (this.#stopProbe !== stop) return; // told once
      timer.cancel();
      this.#stopProbe = undefined;
      this.#sinceMs = clock.nowMs();
      settle();
    };
    const failed = (reason: string): void => end(() => this.#failed(reason));
    const passed = (): void => end(() => this.#passed());
    const stop = (): void => end(() => aborter.abort(new Error('the worker stops')));
    const timer = clock.after(timeoutMs, () => {
      aborter.abort(new Error('the canary took too long'));
      failed(`no answer within ${timeoutMs} ms`);
    });
    this.#stopProbe = stop;
    const sink: EngineSink = {
      tokens: passed,
      output: passed,
      end: () => failed('an empty answer'), // nothing when an output came before
      fail: (error) => failed(error.message),
      isBlocked: () => false,
      onUnblocked: () => {},
    };
    try {
      engine.generate(this.#options.request(), sink, aborter.signal);
    } catch (thrown) {
      failed(String(thrown));
    }
  }

  #passed(): void {
    const wasFailing = this.#failures > 0;
    this.#failures = 0;
    if (wasFailing) this.#options.onPassed();
  }

  #failed(reason: string): void {
    this.#failures++;
    this.#options.onFailed(this.#failures, reason);
  }
}
