import type { Clock } from '../../clock/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';

const REFRESH_MS = 1000;

interface WaitingRefreshDeps {
  readonly clock: Clock;
  readonly discovery: Discovery;
  readonly logger: Logger;
}

/**
 * Reads the fleet each second while requests wait for workers, for a process whose discovery does not follow the fleet.
 * It asks again for the models that wait: one that no worker has served yet is in no view that could show it. No timer
 * outlives the wait: a frozen process would meet it in another request.
 */
export class WaitingRefresh {
  readonly #deps: WaitingRefreshDeps;
  readonly #models: () => readonly string[];
  #waiting: AbortController | undefined;

  /** @param models returns the own names of the models with waiting requests */
  constructor(deps: WaitingRefreshDeps, models: () => readonly string[]) {
    this.#deps = deps;
    this.#models = models;
  }

  /** Takes the number of requests that wait. */
  waiting(count: number): void {
    if (count === 0) {
      this.#waiting?.abort();
      this.#waiting = undefined;
    } else if (this.#waiting === undefined) {
      this.#waiting = new AbortController();
      void this.#refresh(this.#waiting.signal); // never rejects
    }
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps;
    while (!signal.aborted) {
      await clock.sleep(REFRESH_MS, signal).catch(() => undefined); // no request waits any more
      if (signal.aborted) return;
      await this.#read(signal).catch((thrown: unknown) =>
        logger.debug('the fleet was not read', { reason: reasonOf(thrown) }),
      );
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { discovery } = this.#deps;
    await discovery.refresh(REFRESH_MS);
    for (const model of this.#models()) await discovery.shownModels?.show(model, signal);
  }
}
