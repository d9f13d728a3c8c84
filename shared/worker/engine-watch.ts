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
  /** Time between two checks, in milliseconds; a check that takes longer delays the next. */
  readonly intervalMs: number;
  /** Longest time that a check may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Called when three checks in a row have failed, or when one shows that the engine has ended. */
  onDown(reason: unknown): void;
  /** Called when a check has passed again. */
  onUp(): void;
}

/** Checks the engine's health until it is stopped; one success after a failure counts as recovery. */
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

  /** Checks at once, because an event has cast doubt on the engine. */
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
      // The engine refuses connections, was silent for the whole time-out, or says that it is dead: another check is
      // useless.
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
  /** Time without an answer of the engine after which it is probed (`DYN_CANARY_WAIT_TIME`), in milliseconds. */
  readonly idleMs: number;
  /** Longest time until the first output of a probe, in milliseconds; also the pause after a failed probe. */
  readonly timeoutMs: number;
  /**
   * Longest time for an engine that has not answered any request yet: its first answer may take a compilation. @default
   * timeoutMs
   */
  readonly warmUpMs?: number | undefined;
  /** Returns a new probe. */
  request(): EngineRequest;
  /** Whether a probe makes no sense now, because the engine sleeps or is known to be down. */
  isSuspended(): boolean;
  /** Called after a failed probe, with the number of failures in a row. */
  onFailed(failures: number, reason: string): void;
  /** Called when the engine answers again. */
  onPassed(): void;
}

/**
 * Proves that an idle engine is alive, with the smallest request that it takes. The request does not cross a network.
 */
export class EngineCanary {
  readonly #options: EngineCanaryOptions;
  readonly #timer: Timer;
  #hasActivity = false;
  /** Whether the engine has not answered any request, and no probe has failed. */
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

  /** Notes that the engine has answered a request. The cost is one store. */
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
      if (this.#stopProbe !== stop) return; // reported once
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
      end: () => failed('an empty answer'), // does nothing if an output came before
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

/**
 * Loads the engine, and returns the facts that it reports. The number of sequences in them is at most the number of
 * requests that the worker sends to the engine.
 */
export async function startEngine({ engine, settings }: SettledOptions, signal: AbortSignal): Promise<EngineInfo> {
  const info = await engine.start(signal);
  if (settings.requestLimit === undefined) return info;
  const ofRank = Math.ceil(settings.requestLimit / info.dataParallelSize);
  return { ...info, maxNumSeqs: Math.min(info.maxNumSeqs ?? ofRank, ofRank) };
}

/**
 * Stops the engine, and waits at most for its time-out. If the worker started the engine, the end of the process ends
 * it, too.
 */
export async function stopEngine({ engine, clock, logger, settings }: SettledOptions): Promise<void> {
  const { engineStopMs } = settings;
  if (await forAtMost({ clock, timeoutMs: engineStopMs }, () => engine.stop())) return;
  logger.error('engine does not stop', { engine: engine.kind, timeout_ms: engineStopMs });
}
