import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import type { Engine, EngineLoad } from '../../engines/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { IncomingCall, PlaneHandler, PlaneServer } from '../../planes/index.ts';
import { decodeEngineRequest, RELEASE_PREFILL, requestKeyOf } from '../../protocol/index.ts';
import { BoundedMap, isRecord } from '../../records/index.ts';
import type { WorkerMetrics } from '../../telemetry/index.ts';
import type { ServedCall } from './served-call.ts';

/**
 * Interval at which a draining worker asks callers whether another worker can continue, and looks whether its own end
 * has come nearer, in milliseconds.
 */
const ASK_AGAIN_MS = 5000;

/** How long the last frames of ended streams may take to leave, in milliseconds. */
const FLUSH_LIMIT_MS = 1000;

const FLUSH_LOOK_MS = 10;

/** Bound of the remembered requests that went elsewhere; the oldest leaves first. */
const LEFT_MAX = 4096;

/** Outcomes of the streams that were open when the drain began. */
export interface DrainReport {
  readonly finished: number;
  /** Streams that another worker continues, or that were failed so that callers of earlier releases move them. */
  readonly moved: number;
  /** Streams that failed at the drain's limit. */
  readonly failed: number;
}

/** Outcome of a cancel. */
interface CancelReport {
  /** Number of calls that were ended. */
  readonly cancelled: number;
  /** Whether a call of the request ended here early, so that another worker may have it now. */
  readonly left: boolean;
}

/** The requests that a worker is serving. Bounded by the plane's streams per connection. */
export class CallsUnderWay {
  readonly #calls = new Set<ServedCall>();
  /** Keys of requests that were cut here, and that another worker may continue. */
  readonly #left = new BoundedMap<string, true>(LEFT_MAX);
  #waiters: (() => void)[] = [];
  #moved = 0;

  /** Number of requests that another worker has continued, according to their callers. */
  get moved(): number {
    return this.#moved;
  }

  get count(): number {
    return this.#calls.size;
  }

  add(call: ServedCall): void {
    this.#calls.add(call);
  }

  remove(call: ServedCall): void {
    this.#calls.delete(call);
    if (call.wasCut) this.#noteLeft(call);
    if (call.wasMoved) this.#moved++;
    if (this.#calls.size > 0) return;
    for (const waiter of this.#waiters.splice(0)) waiter();
  }

  /** Resolves when no request is left. */
  over(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /**
   * Fails the calls for which `isChosen` is true, and returns their number. It begins with the latest, so that no
   * waiting call starts in between.
   */
  breakOff(error: ServeError, isChosen: (call: ServedCall) => boolean = () => true): number {
    const chosen = [...this.#calls].filter(isChosen).reverse();
    for (const call of chosen) call.breakOff(error);
    return chosen.length;
  }

  /** Asks the callers of requests that another worker could continue to move them. */
  askToMove(): void {
    for (const call of [...this.#calls]) if (call.isMovable && call.isAsked) call.askToMove();
  }

  /** Ends every prompt and stage of the request that a client knows by `id`. */
  cancel(id: string): CancelReport {
    const key = requestKeyOf(id);
    if (key === undefined) return { cancelled: 0, left: false };
    const asked = [...this.#calls].filter((call) => call.key === key);
    for (const call of asked) call.cancel();
    return { cancelled: asked.length, left: this.#left.has(key) };
  }

  #noteLeft({ key }: ServedCall): void {
    if (key !== undefined) this.#left.set(key, true);
  }
}

/**
 * Lets streams under way end, up to the drain's limit. After the grace period it asks their callers repeatedly to move
 * them to other workers. Only the callers know whether there are any, and a stream without another worker stays. Both
 * times count from now.
 * @param byMs returns the monotonic time at which streams that are left fail, if that is earlier. It may come nearer
 * while the drain goes on.
 */
export async function drainCalls(
  calls: CallsUnderWay,
  clock: Clock,
  limits: { readonly graceMs: number; readonly drainLimitMs: number },
  byMs = () => Number.POSITIVE_INFINITY,
): Promise<DrainReport> {
  const error = workerError('EngineShutdown', 'the worker is shutting down');
  const [open, movedBefore, beganMs] = [calls.count, calls.moved, clock.nowMs()];
  let failed = 0;
  let handedBack = 0;
  if (!(await isOverBefore(beganMs + limits.graceMs))) {
    handedBack = calls.breakOff(error, (call) => call.isMovable && !call.isAsked);
    await isOverBefore(beganMs + Math.max(limits.drainLimitMs, limits.graceMs), () => calls.askToMove());
    failed = calls.breakOff(error);
  }
  const moved = handedBack + calls.moved - movedBefore;
  return { finished: open - moved - failed, moved, failed };

  /** Waits for the last request until `endMs`, or until the drain must end. Calls `atTurn` every few seconds. */
  async function isOverBefore(endMs: number, atTurn = () => {}): Promise<boolean> {
    for (;;) {
      const leftMs = Math.min(endMs, byMs()) - clock.nowMs();
      if (leftMs <= 0) return false;
      atTurn();
      const timeoutMs = Math.min(leftMs, ASK_AGAIN_MS);
      if (await forAtMost({ clock, timeoutMs }, () => calls.over())) return true;
    }
  }
}

/** Waits for at most a second until the plane has sent the rest of ended streams. */
export async function flushStreams(server: PlaneServer, clock: Clock): Promise<void> {
  const untilMs = clock.nowMs() + FLUSH_LIMIT_MS;
  do await clock.sleep(FLUSH_LOOK_MS);
  while (server.activeStreams > 0 && clock.nowMs() < untilMs);
}

interface AdmissionOptions {
  /** Requests that the engine may have at once (`--engine-request-limit`); undefined = no limit. */
  readonly requestLimit: number | undefined;
  /** Requests that may wait for one of those to end (`DYN_DYNAMO_REQUEST_QUEUE_LIMIT`). */
  readonly queueLimit: number;
  readonly metrics: Pick<WorkerMetrics, 'atEngine' | 'queued'>;
}

/**
 * Limits the requests at the engine. Further requests wait in the order of their arrival, up to another limit. The
 * caller checks `hasRoom` before each request and refuses the rest.
 *
 * | Request | enters | ends or is cancelled |
 * |---|---|---|
 * | finds a place | goes to the engine | the longest waiting request goes to the engine |
 * | finds no place | waits | is forgotten |
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #running = new Set<ServedCall>();
  readonly #waiting = new Set<ServedCall>(); // in order of arrival

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Whether one more request may run or wait. */
  get hasRoom(): boolean {
    const { requestLimit, queueLimit } = this.#options;
    return requestLimit === undefined || this.#running.size + this.#waiting.size < requestLimit + queueLimit;
  }

  enter(call: ServedCall): void {
    const { requestLimit = Number.POSITIVE_INFINITY, metrics } = this.#options;
    if (this.#running.size < requestLimit) {
      this.#run(call);
      return;
    }
    this.#waiting.add(call);
    metrics.queued(1);
  }

  /** Removes a request that has ended, whether it ran, waited or never entered. */
  leave(call: ServedCall): void {
    const { metrics } = this.#options;
    if (this.#waiting.delete(call)) metrics.queued(-1);
    if (!this.#running.delete(call)) return;
    metrics.atEngine(-1);
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    metrics.queued(-1);
    this.#run(next);
  }

  /** Adds the requests that wait here, which the engine does not know, to `loads`. */
  countedIn(loads: readonly EngineLoad[]): readonly EngineLoad[] {
    if (this.#waiting.size === 0) return loads;
    return loads.map((load) => {
      const own = [...this.#waiting].filter(({ dpRank }) => dpRank === load.dpRank);
      const tokens = own.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
      return {
        ...load,
        waitingRequests: load.waitingRequests + own.length,
        activePrefillTokens: load.activePrefillTokens + tokens,
      };
    });
  }

  #run(call: ServedCall): void {
    this.#running.add(call);
    this.#options.metrics.atEngine(1);
    call.run();
  }
}

/**
 * How long a draining prefill worker keeps its engine. No message says when decode workers have fetched the blocks of
 * the last prompts, so each prompt gets the same time (`DYN_PREFILL_DRAIN_TIMEOUT_S`).
 */
export class LastFetches {
  readonly #clock: Clock;
  readonly #keepMs: number;
  #lastEndMs = Number.NEGATIVE_INFINITY;

  /** @param keepMs time after the end of each prompt; 0 = the worker does not wait for fetches */
  constructor(clock: Clock, keepMs: number) {
    this.#clock = clock;
    this.#keepMs = keepMs;
  }

  /** Notes that a prompt has been computed. */
  noteEnd(): void {
    this.#lastEndMs = this.#clock.nowMs();
  }

  /** Resolves when the time of the last prompt has passed. */
  async over(): Promise<void> {
    const leftMs = this.#lastEndMs + this.#keepMs - this.#clock.nowMs();
    if (leftMs > 0) await this.#clock.sleep(leftMs);
  }
}

/**
 * Serves a call that gives up the blocks of an earlier prefill. Engines without such a call free them after their own
 * time-out. Returns false, and does nothing, for every other call.
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

/**
 * Returns a handler that serves only these calls: a draining prefill worker thus frees blocks before their time-out.
 */
export function serveOnlyReleases(engine: Engine): PlaneHandler {
  return (call) => {
    if (servePrefillRelease(engine, call)) return;
    call.fail(workerError('WorkerUnavailable', 'Server unavailable: draining'));
  };
}
