import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { HttpApp } from '../http/app.ts';

/** An app in the form that a function runs. */
export interface FunctionApp extends Pick<HttpApp, 'serve'> {
  /**
   * Updates what stood still while the environment was frozen, while the request waits. `signal` is the request's
   * deadline, and `shardKey` identifies its conversation (`shardKeyOf`). The method limits its own time; a rejection
   * fails the request.
   */
  beforeRequest?(signal: AbortSignal, shardKey: string | undefined): Promise<void>;
  /**
   * Sends what cannot wait until the environment is thawed. The client already has its whole answer. The method limits
   * its own time.
   */
  afterRequest?(): Promise<void>;
  /**
   * Returns whether the settings that the app started with no longer hold. The next request then starts another app.
   */
  isOutdated?(): boolean;
  /** Releases what the app holds, once another app takes its place. */
  close?(): Promise<void>;
}

/** How long a request waits for the replacement of an outdated app. After that the outdated app serves it. */
const REPLACED_MS_MAX = 1000;
/** How long the outdated app serves after a replacement failed to start, before another is tried. */
const REPLACED_AGAIN_MS = 5000;

/** A replacement under way. */
interface Replacement {
  /** Resolves when the start has ended; never rejects. */
  readonly done: Promise<void>;
  app?: FunctionApp;
}

/**
 * The app of an environment. A success is kept; after a failure the next request starts the app again. An outdated app
 * is replaced at the beginning of a request, when it serves no other. It serves on as long as no replacement starts.
 */
export class RunningApp {
  readonly #startApp: () => Promise<FunctionApp>;
  readonly #clock: Clock;
  readonly #onServedOn: (cause: unknown) => void;
  #starting: Promise<FunctionApp> | undefined;
  #replacement: Replacement | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  /** @param onServedOn receives the reason if a replacement could not start; the outdated app serves on */
  constructor(startApp: () => Promise<FunctionApp>, clock: Clock, onServedOn: (cause: unknown) => void) {
    this.#startApp = startApp;
    this.#clock = clock;
    this.#onServedOn = onServedOn;
  }

  /** Returns the app to serve a request with. @throws ServeError if no app can start */
  async get(): Promise<FunctionApp> {
    this.#starting ??= this.#startApp();
    try {
      const app = await this.#starting;
      return app.isOutdated?.() === true ? await this.#replaced(app) : app;
    } catch (cause) {
      this.#starting = undefined;
      throw new ServeError('service_unavailable', 'The frontend could not start', { cause, retryAfterMs: 1000 });
    }
  }

  async #replaced(outdated: FunctionApp): Promise<FunctionApp> {
    const clock = this.#clock;
    if (this.#replacement === undefined) {
      if (clock.nowMs() - this.#failedAtMs < REPLACED_AGAIN_MS) return outdated;
      this.#replacement = this.#replace();
    }
    const replacement = this.#replacement;
    await forAtMost({ clock, timeoutMs: REPLACED_MS_MAX }, () => replacement.done);
    if (replacement.app === undefined) return outdated;
    this.#replacement = undefined;
    this.#starting = Promise.resolve(replacement.app);
    void outdated.close?.().catch(() => {}); // no request uses it any more
    return replacement.app;
  }

  #replace(): Replacement {
    const started = this.#startApp().then(
      (app) => {
        replacement.app = app;
      },
      (cause: unknown) => {
        this.#failedAtMs = this.#clock.nowMs();
        this.#replacement = undefined; // the old app serves until another is tried
        this.#onServedOn(cause);
      },
    );
    const replacement: Replacement = { done: started };
    return replacement;
  }
}
