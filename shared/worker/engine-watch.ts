import type { Clock, Timer } from '../clock/index.ts';
import { forAtMost, withDeadline } from '../concurrency/index.ts';
import { type Engine, type EngineInfo, type EngineSink, isRefused } from '../engines/index.ts';
import { ServeError } from '../errors/index.ts';
import type { EngineRequest } from '../protocol/index.ts';
import type { SettledOptions } from './options.ts';

/** Failures in a row after which an engine counts as down. */
const FAILURES_MAX = 3;

interface EngineMonitorOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  /** Time between two checks; one that takes longer delays the next. */
  readonly intervalMs: number;
  /** Longest time that a check may take. */
  readonly timeoutMs: number;
  /** Three checks in a row have failed, or one has shown that the engine is gone. */
  onDown(reason: unknown): void;
  /** A check has passed again. */
  onUp(): void;
}

/** Asks the engine for its health for ever; one success after a failure counts as recovery. */
export class EngineMonitor {
  readonly #options: EngineMonitorOptions;
  readonly #timer: Timer;
  readonly #stopping = new AbortController();
  #failures = 0;
  #isChecking = false;

  constructor(options: EngineMonitorOptions) {
    this.#options = options;
    this.#timer = options.clock.every(options.intervalMs, () => this.checkNow());
  }

  /** Checks without waiting for the next turn, as something has shaken the trust in the engine. */
  checkNow(): void {
    if (!this.#isChecking && !this.#stopping.signal.aborted) void this.#check();
  }

  stop(): void {
    this.#timer.cancel();
    this.#stopping.abort(new Error('the worker stops'));
  }

  async #check(): Promise<void> {
    const { engine, clock, timeoutMs } = this.#options;
    this.#isChecking = true;
    const startedMs = clock.nowMs();
    const { signal } = this.#stopping;
    const lateMessage = `the engine's health check took more than ${timeoutMs} ms`;
    try {
      await withDeadline({ clock, timeoutMs, signal, lateMessage }, (limited) => engine.health(limited));
      this.#passed();
    } catch (reason) {
      // Nobody listens any more, or has for as long as is allowed, or says that it is dead: asking again would only take time.
      const isGone = isRefused(reason) || isDead(reason) || clock.nowMs() - startedMs >= timeoutMs;
      this.#failed(reason, isGone);
    } finally {
      this.#isChecking = false;
    }
  }

  #passed(): void {
    const wasDown = this.#failures >= FAILURES_MAX;
    this.#failures = 0;
    if (wasDown && !this.#stopping.signal.aborted) this.#options.onUp();
  }

  #failed(reason: unknown, isGone: boolean): void {
    if (this.#stopping.signal.aborted) return;
    const wasDown = this.#failures >= FAILURES_MAX;
    this.#failures = isGone ? Math.max(FAILURES_MAX, this.#failures + 1) : this.#failures + 1;
    if (this.#failures >= FAILURES_MAX && !wasDown) this.#options.onDown(reason);
  }
}

function isDead(reason: unknown): boolean {
  return reason instanceof ServeError && reason.worker === 'EngineShutdown';
}

interface EngineCanaryOptions {
  readonly engine: Pick<Engine, 'generate'>;
  readonly clock: Clock;
  /** Time without an answer of the engine after which it is probed (`DYN_CANARY_WAIT_TIME`). */
  readonly idleMs: number;
  /** Until the first output of a probe; also the pause after one that failed. */
  readonly timeoutMs: number;
  /** The same of an engine that has not answered anybody yet: its first answer may take a compilation. @default timeoutMs */
  readonly warmUpMs?: number | undefined;
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
  /** It has answered nobody, and no probe has failed. */
  #isCold = true;
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
    const { engine, clock, warmUpMs = 0 } = this.#options;
    const timeoutMs = Math.max(this.#options.timeoutMs, this.#isCold ? warmUpMs : 0);
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
    this.#isCold = false;
    this.#failures = 0;
    if (wasFailing) this.#options.onPassed();
  }

  #failed(reason: string): void {
    this.#isCold = false;
    this.#failures++;
    this.#options.onFailed(this.#failures, reason);
  }
}

/** Loads the engine; what it says of itself then, with no more sequences than it is given requests. */
export async function startEngine({ engine, settings }: SettledOptions, signal: AbortSignal): Promise<EngineInfo> {
  const info = await engine.start(signal);
  if (settings.requestLimit === undefined) return info;
  const ofRank = Math.ceil(settings.requestLimit / info.dataParallelSize);
  return { ...info, maxNumSeqs: Math.min(info.maxNumSeqs ?? ofRank, ofRank) };
}

/** Waits no longer than it may: the end of the process takes an engine of its own along. */
export async function stopEngine({ engine, clock, logger, settings }: SettledOptions): Promise<void> {
  const { engineStopMs } = settings;
  if (await forAtMost({ clock, timeoutMs: engineStopMs }, () => engine.stop())) return;
  logger.error('engine does not stop', { engine: engine.kind, timeout_ms: engineStopMs });
}
