import type { Clock, Random, Timer } from '../clock/index.ts';
import { PeriodicTask } from '../concurrency/index.ts';
import type { LeaseRow, RouterState, StateName } from './router-state.ts';

export interface LeaseHolderOptions {
  readonly state: RouterState;
  readonly lease: StateName;
  readonly clock: Clock;
  readonly random: Random;
  /** @default 10_000 */
  readonly ttlMs?: number;
  /** Called once each time that this process takes the lease. */
  onAcquired?(fence: number): void;
  /** Called when the lease has run out, or another process holds it. */
  onLost?(): void;
  /** Called with renewals and checks that failed. */
  onProblem(problem: unknown): void;
}

const TTL_MS = 10_000;
const RENEWALS_PER_TTL = 3;
/**
 * Number of times to live after which, in table time, this process may take an expired lease that it sees for the first
 * time.
 */
const EXPIRED_TTLS = 2;

/**
 * Holds one lease whenever no other process does. By its own clock, it stops holding the lease before another process
 * may take it.
 *
 *     waiting --taken or found to be ours--> held --own deadline passes, or another holder seen--> waiting
 *
 * It takes another holder's lease only after the lease has expired by table time. It also requires that it has seen the
 * lease unchanged for one time to live on its own clock, or that the lease expired two times to live ago. So a wrong
 * clock is not enough to take a lease. In a state without table time, it must have seen the lease unchanged.
 */
export class LeaseHolder {
  readonly #options: LeaseHolderOptions;
  readonly #ttlMs: number;
  readonly #task: PeriodicTask;
  /**
   * Id of this holder. It is new for each attempt to take the lease, so that a late write of an earlier term finds
   * another holder.
   */
  #holder: string;
  #fence: number | undefined;
  #heldSinceMs = 0;
  #deadlineMs = 0;
  #deadline: Timer | undefined;
  #seen: { readonly fence: number; readonly sinceMs: number } | undefined;

  constructor(options: LeaseHolderOptions) {
    const { clock, random, ttlMs = TTL_MS, onProblem } = options;
    this.#options = options;
    this.#ttlMs = ttlMs;
    this.#holder = random.instanceId();
    const periodMs = ttlMs / RENEWALS_PER_TTL;
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs,
      backOffMsMax: periodMs,
      run: (signal) => this.#round(signal),
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Fence of the lease while it is held, by this process's own clock. */
  get fence(): number | undefined {
    if (this.#fence !== undefined && this.#options.clock.nowMs() >= this.#deadlineMs) this.#lose();
    return this.#fence;
  }

  /** Time since which the lease has been held without a break; undefined while it is not. */
  get heldMs(): number | undefined {
    return this.fence === undefined ? undefined : this.#options.clock.nowMs() - this.#heldSinceMs;
  }

  /**
   * Renews now and resolves with the new fence, or with undefined if another process holds the lease. It serves work
   * that needs a fence of its own.
   */
  async renew(signal: AbortSignal): Promise<number | undefined> {
    if (this.fence === undefined) return undefined;
    await this.#renew(signal);
    return this.fence;
  }

  /** Gives the lease back, so that another process can take it at once. */
  async stop(signal: AbortSignal): Promise<void> {
    await this.#task.stop();
    const isHeld = this.fence !== undefined;
    this.#lose();
    if (isHeld) await this.#options.state.endLease(this.#options.lease, this.#holder, signal);
  }

  async #round(signal: AbortSignal): Promise<void> {
    if (this.fence !== undefined) return this.#renew(signal);
    const { state, lease, clock } = this.#options;
    const row = await state.readLease(lease, signal);
    if (row?.holder === this.#holder) return this.#renew(signal); // the answer to `takeLease` was lost
    if (!this.#mayTake(row)) return;
    const sentAtMs = clock.nowMs();
    const { random } = this.#options;
    this.#holder = random.instanceId();
    const take = { holder: this.#holder, ttlMs: this.#ttlMs, seenFence: row?.fence };
    const taken = await state.takeLease(lease, take, signal);
    if (taken !== undefined) this.#hold(taken.fence, sentAtMs);
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const { state, lease, clock } = this.#options;
    const sentAtMs = clock.nowMs();
    const row = await state.renewLease(lease, this.#holder, this.#ttlMs, signal);
    if (row === undefined) this.#lose();
    else this.#hold(row.fence, sentAtMs);
  }

  #mayTake(row: LeaseRow | undefined): boolean {
    if (row === undefined || row.holder === '') return true;
    const { state, clock } = this.#options;
    const nowMs = clock.nowMs();
    if (this.#seen?.fence !== row.fence) this.#seen = { fence: row.fence, sinceMs: nowMs };
    const isUnchanged = nowMs - this.#seen.sinceMs >= row.ttlMs;
    const tableMs = state.nowMs();
    if (tableMs === undefined) return isUnchanged;
    const expiredForMs = tableMs - row.expiresAtMs;
    return expiredForMs >= 0 && (isUnchanged || expiredForMs >= EXPIRED_TTLS * row.ttlMs);
  }

  #hold(fence: number, sentAtMs: number): void {
    const { clock, onAcquired } = this.#options;
    const deadlineMs = sentAtMs + this.#ttlMs;
    if (deadlineMs <= clock.nowMs()) return; // the answer came after the lease expired
    if (this.#fence !== undefined && fence <= this.#fence) return; // answers of two renewals that crossed
    const isNew = this.#fence === undefined;
    this.#fence = fence;
    this.#deadlineMs = deadlineMs;
    this.#deadline?.cancel();
    this.#deadline = clock.after(deadlineMs - clock.nowMs(), () => this.#lose());
    if (!isNew) return;
    this.#heldSinceMs = clock.nowMs();
    onAcquired?.(fence);
  }

  #lose(): void {
    this.#deadline?.cancel();
    if (this.#fence === undefined) return;
    this.#fence = undefined;
    this.#options.onLost?.();
  }
}
