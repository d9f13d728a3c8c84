import type { Clock, Random, Timer } from '../clock/index.ts';
import { withEither } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import { OwnOrders } from './drain-orders.ts';
import { LoadBoard, OwnLoads } from './loads.ts';
import { type DiscoveryBase, DiscoveryError } from './options.ts';
import type { DrainOrder, ReportProblem, WorkerLoad } from './types.ts';

export interface LeaseKeeperOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
  /**
   * Makes sure that the lease and everything under it are in the store. Rejects if it cannot, or when `signal` aborts.
   */
  readonly renew: (signal: AbortSignal) => Promise<void>;
  readonly report: ReportProblem;
}

/** Number of renewals in one time to live. */
const RENEWALS_PER_TTL = 3;
/** Least time between two renewals that carry news, or one period if that is shorter. */
const NEWS_GAP_MS = 1000;
const JITTER = 0.1; // so that a fleet started together does not stay in step
// Retries, as shares of the period: doubled with each failure, up to a quarter while there is a lease to save.
const FIRST_RETRY_SHARE = 1 / 32;
const RETRY_SHARE_MAX_HELD = 1 / 4;
/** Pauses between the attempts of one call, in which a server that was replaced comes back. */
const PAUSES_MS = [200, 400, 800];

/** How one call to a store is made. */
interface Attempt {
  readonly signal: AbortSignal | undefined;
  /** Whether the failure may pass by itself. */
  readonly mayPass: (thrown: unknown) => boolean;
  /** Returns the failure as one line for an operator. */
  readonly toError: (thrown: unknown) => Error;
}

/**
 * Keeps one lease alive. It renews every third of its time to live, plus or minus a tenth, and sooner if there is news.
 * It retries failures with growing pauses. It reports when the lease ran out before a renewal succeeded, and when it is
 * held again.
 *
 *     idle --begin--> held --own deadline passes--> lost --renewal succeeds--> held
 *
 * `stop` ends it in any state.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #periodMs: number;
  readonly #lostCallbacks: (() => void)[] = [];
  readonly #regainedCallbacks: (() => void)[] = [];
  #state: 'idle' | 'held' | 'lost' | 'stopped' = 'idle';
  #failures = 0;
  #hasNews = false;
  /** Time when the last renewal began (monotonic); the first writing of the lease does not count. */
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #renewalDueMs = 0;
  #deadlineMs = 0;
  #renewal: Timer | undefined;
  #deadline: Timer | undefined;
  #attempt: AbortController | undefined;
  #isRenewing = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    this.#periodMs = options.ttlMs / RENEWALS_PER_TTL;
  }

  onLost(callback: () => void): void {
    this.#lostCallbacks.push(callback);
  }

  onRegained(callback: () => void): void {
    this.#regainedCallbacks.push(callback);
  }

  /** Starts to renew. The request that wrote the lease left at `sentAtMs` (monotonic). Only the first call counts. */
  begin(sentAtMs: number): void {
    if (this.#state !== 'idle') return;
    this.#state = 'held';
    this.#armDeadline(sentAtMs);
    this.#schedule(this.#jittered());
    if (this.#hasNews) this.hasten();
  }

  /**
   * Notes that the content of a renewal has changed. The next renewal comes at once, or a second after the last one.
   * While the lease cannot be renewed, the news waits for the retry.
   */
  hasten(): void {
    this.#hasNews = true;
    // `begin` and `#succeeded` take care of it
    if (this.#state !== 'held' || this.#failures > 0 || this.#isRenewing) return;
    const { clock } = this.#options;
    const dueMs = Math.max(clock.nowMs(), this.#renewedAtMs + Math.min(NEWS_GAP_MS, this.#periodMs));
    if (dueMs < this.#renewalDueMs) this.#schedule(dueMs - clock.nowMs());
  }

  /** Ends renewing and aborts a renewal under way. Idempotent. */
  stop(): void {
    this.#state = 'stopped';
    this.#renewal?.cancel();
    this.#deadline?.cancel();
    this.#attempt?.abort(new Error('the lease is given up'));
  }

  #jittered(): number {
    return this.#periodMs * (1 - JITTER + 2 * JITTER * this.#options.random.next());
  }

  #schedule(delayMs: number): void {
    this.#renewal?.cancel();
    this.#renewalDueMs = this.#options.clock.nowMs() + delayMs;
    this.#renewal = this.#options.clock.after(delayMs, () => void this.#renew()); // #renew never rejects
  }

  async #renew(): Promise<void> {
    const { clock, renew, report } = this.#options;
    const sentAtMs = clock.nowMs();
    if (sentAtMs >= this.#deadlineMs) this.#lose(); // the process slept: both timers are due, and this one fired first
    const attempt = new AbortController();
    this.#attempt = attempt;
    this.#isRenewing = true;
    this.#hasNews = false; // later news may have missed this renewal
    this.#renewedAtMs = sentAtMs;
    const patience = clock.after(this.#periodMs, () => attempt.abort(new Error('the lease renewal timed out')));
    try {
      await renew(attempt.signal);
      this.#isRenewing = false;
      if (!this.#isStopped()) this.#succeeded(sentAtMs);
    } catch (error) {
      this.#isRenewing = false;
      if (this.#isStopped()) return; // aborted by `stop`
      report(new Error(`a discovery lease was not renewed: ${reasonOf(error)}`, { cause: error }));
      const shareMax = this.#state === 'held' ? RETRY_SHARE_MAX_HELD : 1;
      this.#schedule(this.#periodMs * Math.min(shareMax, FIRST_RETRY_SHARE * 2 ** this.#failures++));
    } finally {
      patience.cancel();
    }
  }

  #isStopped(): boolean {
    return this.#state === 'stopped';
  }

  #succeeded(sentAtMs: number): void {
    this.#failures = 0;
    if (sentAtMs + this.#options.ttlMs <= this.#options.clock.nowMs()) {
      this.#schedule(0); // the answer came so late that the renewed lease has run out already
      return;
    }
    this.#armDeadline(sentAtMs);
    this.#schedule(this.#jittered());
    const wasLost = this.#state === 'lost';
    this.#state = 'held';
    if (this.#hasNews) this.hasten();
    if (!wasLost) return;
    for (const callback of this.#regainedCallbacks) callback();
  }

  #armDeadline(sentAtMs: number): void {
    const { clock, ttlMs } = this.#options;
    this.#deadlineMs = sentAtMs + ttlMs;
    this.#deadline?.cancel();
    this.#deadline = clock.after(this.#deadlineMs - clock.nowMs(), () => this.#lose());
  }

  #lose(): void {
    if (this.#state !== 'held') return;
    this.#state = 'lost';
    for (const callback of this.#lostCallbacks) callback();
  }
}

/**
 * Common part of the handles of every store: a lease, which carries the loads of their workers and orders to them, and
 * its end.
 */
export abstract class LeasedDiscovery<Owned extends { readonly instanceId: string }> {
  protected readonly base: DiscoveryBase;
  protected readonly keeper: LeaseKeeper;
  protected readonly loads = new OwnLoads();
  protected readonly board: LoadBoard;
  protected readonly orders: OwnOrders;
  /** Records under the lease, by bucket and key. */
  protected readonly owned = new Map<string, Owned>();
  protected readonly closing = new AbortController();

  constructor(base: DiscoveryBase) {
    this.base = base;
    this.board = new LoadBoard(base.report);
    this.orders = new OwnOrders(base.report);
    this.keeper = new LeaseKeeper({ ...base, renew: (signal) => this.renew(signal) });
  }

  setLoad(instanceId: string, load: WorkerLoad): void {
    if (this.isClosed) return;
    try {
      if (this.loads.set(instanceId, load)) this.loadsChanged();
    } catch (error) {
      this.base.report(error as RangeError);
    }
  }

  onLeaseLost(callback: () => void): void {
    this.keeper.onLost(callback);
  }

  onLeaseRegained(callback: () => void): void {
    this.keeper.onRegained(callback);
  }

  onDrainOrdered(callback: (order: DrainOrder) => void): void {
    this.orders.add(callback);
  }

  protected abstract renew(signal: AbortSignal): Promise<void>;

  protected loadsChanged(): void {
    this.keeper.hasten();
  }

  /**
   * Must be called when a record of that instance was removed. Returns true if it was the last one, and a load was
   * removed with it.
   */
  protected dropLoad(instanceId: string): boolean {
    return ![...this.owned.values()].some((one) => one.instanceId === instanceId) && this.loads.delete(instanceId);
  }

  protected get isClosed(): boolean {
    return this.closing.signal.aborted;
  }

  protected assertUsable(signal?: AbortSignal): void {
    signal?.throwIfAborted();
    this.closing.signal.throwIfAborted();
  }

  /** Runs `work` with a signal that aborts with `signal`, or when the handle closes. */
  protected underEither<T>(signal: AbortSignal | undefined, work: (operation: AbortSignal) => Promise<T>): Promise<T> {
    const closing = this.closing.signal;
    return withEither(signal === undefined ? [closing] : [signal, closing], work);
  }

  /**
   * Does work that ends when the signal aborts or the handle is closed. Tries again as long as its failure may pass,
   * such as the absence of a server that is replaced. Throws what `toError` makes of the last failure.
   */
  protected async attempt<T>(
    work: (ending: AbortSignal) => Promise<T>,
    { signal, mayPass, toError }: Attempt,
  ): Promise<T> {
    const repeat = async (ending: AbortSignal): Promise<T> => {
      for (const pauseMs of PAUSES_MS) {
        try {
          return await work(ending);
        } catch (thrown) {
          if (!mayPass(thrown)) throw thrown;
          await this.base.clock.sleep(pauseMs, ending);
        }
      }
      return work(ending);
    };
    try {
      return await this.underEither(signal, repeat);
    } catch (thrown) {
      this.assertUsable(signal);
      throw toError(thrown);
    }
  }

  /** Closes the handle. Returns false if it was closed before. */
  protected beginClosing(): boolean {
    if (this.isClosed) return false;
    this.closing.abort(new DiscoveryError('closed', 'this discovery handle was closed'));
    this.keeper.stop();
    this.board.close();
    return true;
  }
}
