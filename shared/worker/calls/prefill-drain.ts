import type { Clock } from '../../clock/index.ts';
import type { Engine } from '../../engines/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { IncomingCall, PlaneHandler } from '../../planes/request/index.ts';
import { decodeEngineRequest, RELEASE_PREFILL } from '../../protocol/generation/index.ts';
import { isRecord } from '../../records/index.ts';

/**
 * How long a prefill worker that drains keeps its engine: nobody tells when decode workers have fetched the blocks of the last
 * prompts, so each of these is given the same time (`DYN_PREFILL_DRAIN_TIMEOUT_S`).
 */
export class LastFetches {
  readonly #clock: Clock;
  readonly #keepMs: number;
  #lastEndMs = Number.NEGATIVE_INFINITY;

  /** @param keepMs after the end of each prompt; 0 = blocks are not waited for */
  constructor(clock: Clock, keepMs: number) {
    this.#clock = clock;
    this.#keepMs = keepMs;
  }

  /** A prompt has been computed. */
  noteEnd(): void {
    this.#lastEndMs = this.#clock.nowMs();
  }

  /** Resolves when the time of the last prompt is over. */
  async over(): Promise<void> {
    const leftMs = this.#lastEndMs + this.#keepMs - this.#clock.nowMs();
    if (leftMs > 0) await this.#clock.sleep(leftMs);
  }
}

/**
 * Serves a call that gives up what an earlier prefill holds. Engines that cannot be told free it after their own
 * time-out. Returns false, with nothing done, for every other call.
 */
export function servePrefillRelease(engine: Engine, call: IncomingCall): boolean {
  const { id, body, tokenIds } = call;
  if (!isRecord(body)) return false;
  const { annotations } = body;
  if (!Array.isArray(annotations) || !annotations.includes(RELEASE_PREFILL)) return false;
  try {
    engine.releasePrefill?.(decodeEngineRequest(id, body, tokenIds));
    call.end();
  } catch (thrown) {
    call.fail(toServeError(thrown));
  }
  return true;
}

/** Takes such calls and no other: what a prefill worker that drains holds is given up sooner than its time-out. */
export function serveOnlyReleases(engine: Engine): PlaneHandler {
  return (call) => {
    if (servePrefillRelease(engine, call)) return;
    call.fail(workerError('WorkerUnavailable', 'Server unavailable: draining'));
  };
}
