import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { type ServeError, workerError } from '../../errors/index.ts';
import type { PlaneServer } from '../../planes/request/index.ts';
import { requestKeyOf } from '../../protocol/generation/index.ts';
import type { ServedCall } from './served-call.ts';

/** How long the last frames of ended streams may take to leave. */
const FLUSH_LIMIT_MS = 1000;

const FLUSH_LOOK_MS = 10;

/** Requests of which is remembered that they went elsewhere; the oldest leaves first. */
const LEFT_MAX = 4096;

/** What became of the streams that were open when the drain began. */
export interface DrainReport {
  readonly finished: number;
  /** Failed so that another worker goes on with them. */
  readonly moved: number;
  /** Failed at the drain's limit because they could not move. */
  readonly failed: number;
}

/** What a cancel found. */
export interface CancelReport {
  /** Calls that it has ended. */
  readonly cancelled: number;
  /** A call of the request ended here before its time: another worker may have it now. */
  readonly left: boolean;
}

/** The requests that a worker is serving. Bounded by the plane's streams per connection. */
export class CallsUnderWay {
  readonly #calls = new Set<ServedCall>();
  /** Keys of requests that were cut here, and that another worker may go on with. */
  readonly #left = new Set<string>();
  #waiters: (() => void)[] = [];

  get count(): number {
    return this.#calls.size;
  }

  add(call: ServedCall): void {
    this.#calls.add(call);
  }

  remove(call: ServedCall): void {
    this.#calls.delete(call);
    if (call.wasCut) this.#noteLeft(call);
    if (this.#calls.size > 0) return;
    for (const waiter of this.#waiters.splice(0)) waiter();
  }

  /** Resolves when none is left. */
  over(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Fails those that `isChosen`, the latest first, so that none that waits runs for a moment; returns how many. */
  breakOff(error: ServeError, isChosen: (call: ServedCall) => boolean = () => true): number {
    const chosen = [...this.#calls].filter(isChosen).reverse();
    for (const call of chosen) call.breakOff(error);
    return chosen.length;
  }

  /** Ends those that a client knows by `id`, every prompt and leg of its request. */
  cancel(id: string): CancelReport {
    const key = requestKeyOf(id);
    if (key === undefined) return { cancelled: 0, left: false };
    const asked = [...this.#calls].filter((call) => call.key === key);
    for (const call of asked) call.cancel();
    return { cancelled: asked.length, left: this.#left.has(key) };
  }

  #noteLeft({ key }: ServedCall): void {
    if (key === undefined) return;
    this.#left.delete(key);
    this.#left.add(key);
    if (this.#left.size <= LEFT_MAX) return;
    for (const oldest of this.#left) {
      this.#left.delete(oldest);
      return; // one in, one out
    }
  }
}

/**
 * Lets streams under way end: all for the grace period, then those that cannot move to another worker up to
 * the limit, both counted from now.
 */
export async function drainCalls(
  calls: CallsUnderWay,
  clock: Clock,
  limits: { readonly graceMs: number; readonly drainLimitMs: number },
): Promise<DrainReport> {
  const error = workerError('EngineShutdown', 'the worker is shutting down');
  const open = calls.count;
  let moved = 0;
  let failed = 0;
  if (!(await forAtMost({ clock, timeoutMs: limits.graceMs }, () => calls.over()))) {
    moved = calls.breakOff(error, (call) => call.isMovable);
    const leftMs = Math.max(0, limits.drainLimitMs - limits.graceMs);
    if (!(await forAtMost({ clock, timeoutMs: leftMs }, () => calls.over()))) failed = calls.breakOff(error);
  }
  return { finished: open - moved - failed, moved, failed };
}

/** Waits until the plane has sent what ended streams still had, within a second. */
export async function flushStreams(server: PlaneServer, clock: Clock): Promise<void> {
  const untilMs = clock.nowMs() + FLUSH_LIMIT_MS;
  do await clock.sleep(FLUSH_LOOK_MS);
  while (server.activeStreams > 0 && clock.nowMs() < untilMs);
}
