import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { HttpApp } from '../http/app.ts';

/** An app as a function runs it. */
export interface FunctionApp extends Pick<HttpApp, 'serve'> {
  /**
   * Brings up to date what stood still while the environment was frozen; the request waits for it, `signal` is its deadline.
   * Bounded in time by itself, and a rejection fails the request. `shardKey` is of the conversation (`shardKeyOf`).
   */
  beforeRequest?(signal: AbortSignal, shardKey: string | undefined): Promise<void>;
  /** Sends what must not wait until the environment is thawed; the client has its whole answer. Bounded by itself. */
  afterRequest?(): Promise<void>;
  /** True when what it was started with no longer holds: the next request starts another in its place. */
  isOutdated?(): boolean;
  /** Lets go of what it holds; called once another is wanted in its place. */
  close?(): Promise<void>;
}

/** A request waits so long for an app that takes the place of an outdated one, which serves it otherwise. */
const REPLACED_MS_MAX = 1000;
/** After a replacement that did not start, the outdated app serves for so long before another is tried. */
const REPLACED_AGAIN_MS = 5000;

/** A replacement under way. */
interface Replacement {
  /** Never rejects. */
  readonly done: Promise<void>;
  app?: FunctionApp;
}

/**
 * The app of an environment: a success is remembered, and a failure forgotten once it was seen. An outdated one is replaced at the
 * beginning of a request, when it serves nobody; while the other one cannot start it serves on.
 */
export class RunningApp {
  readonly #startApp: () => Promise<FunctionApp>;
  readonly #clock: Clock;
  readonly #onServedOn: (cause: unknown) => void;
  #starting: Promise<FunctionApp> | undefined;
  #replacement: Replacement | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  /** @param onServedOn is told why another could not start in the place of an outdated one, which serves on */
  constructor(startApp: () => Promise<FunctionApp>, clock: Clock, onServedOn: (cause: unknown) => void) {
    this.#startApp = startApp;
    this.#clock = clock;
    this.#onServedOn = onServedOn;
  }

  /** @throws ServeError where there is none that can serve */
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
    void outdated.close?.().catch(() => {}); // nobody uses it any more
    return replacement.app;
  }

  #replace(): Replacement {
    const started = this.#startApp().then(
      (app) => {
        replacement.app = app;
      },
      (cause: unknown) => {
        this.#failedAtMs = this.#clock.nowMs();
        this.#replacement = undefined; // what there is does until another is tried
        this.#onServedOn(cause);
      },
    );
    const replacement: Replacement = { done: started };
    return replacement;
  }
}
