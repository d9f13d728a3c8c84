import type { Timer } from '../../clock/index.ts';
import { type ServeError, workerError } from '../../errors/index.ts';
import type { CallSink } from '../../planes/index.ts';
import type { EngineOutput, EngineRequest } from '../../protocol/index.ts';
import { Attempt } from './attempt.ts';
import type { MigrationBudget } from './migration-budget.ts';
import type { RunContext } from './run-context.ts';
import { avoidAfter, WorkerChoice, WorkerEligibility } from './worker-choice.ts';
import type { Found, WorkerSearch } from './worker-search.ts';

/** Longest time until another worker has the stream. After it the worker that drains asks again. */
const HANDOVER_MS_MAX = 10_000;

/** Owner of the stream. */
export interface StreamOwner extends CallSink {
  /** Called when another worker has taken the stream. Its output comes here from now on. */
  handedOver(handover: Handover): void;
  /** Called if no worker has taken the stream. */
  handoverFailed(handover: Handover): void;
}

/**
 * Moves a stream from a worker that wants to hand it over to another one. The present worker keeps the stream until
 * then. The new one begins after the last token that the client has, so output of the present one is held back
 * meanwhile. The client gets that output if the handover fails, and the output of the new worker if it succeeds.
 *
 * | State | sent | accepted | refused, no worker, late | present worker ends or fails, client gone |
 * |---|---|---|---|---|
 * | choosing | -> sent | - | -> over | -> over |
 * | sent | - | -> taken | -> over | -> over |
 * | taken | - | - | to the owner | - |
 */
export class Handover implements CallSink {
  readonly attempt: Attempt;
  /** When the search for another worker began. */
  readonly sinceMs: number;
  readonly #context: RunContext;
  readonly #search: WorkerSearch;
  readonly #budget: MigrationBudget;
  readonly #from: Attempt;
  readonly #owner: StreamOwner;
  readonly #aborter = new AbortController();
  readonly #timer: Timer;
  #state: 'under way' | 'taken' | 'over' = 'under way';
  #held: (() => void)[] | undefined;

  constructor(
    context: RunContext,
    search: WorkerSearch,
    budget: MigrationBudget,
    /** Attempt at the present worker. */
    from: Attempt,
    owner: StreamOwner,
  ) {
    this.#context = context;
    this.#search = search;
    this.#budget = budget;
    this.#from = from;
    this.#owner = owner;
    this.attempt = new Attempt(from);
    this.sinceMs = context.clock.nowMs();
    this.#timer = context.clock.after(HANDOVER_MS_MAX, () => owner.handoverFailed(this));
  }

  /** Finds another worker, and asks it to continue after the last token that the client has. */
  start(): void {
    // If no worker takes it now, the worker that drains asks again.
    this.#start().catch(() => this.#owner.handoverFailed(this));
  }

  /** Whether output of the present worker is held back. */
  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** Keeps an output. The credit of the present worker, whose call is paused, bounds their number. */
  keep(say: () => void): void {
    this.#held?.push(say);
  }

  /** Gives up, and returns the output that was held back. */
  cancel(): readonly (() => void)[] {
    this.#state = 'over';
    this.#timer.cancel();
    const { call } = this.attempt;
    this.attempt.leave(undefined, 'given up');
    call?.kill();
    this.#aborter.abort(new Error('the stream stays'));
    const held = this.#held ?? [];
    this.#held = undefined;
    return held;
  }

  accepted(): void {
    if (this.#state !== 'under way') return;
    if (this.attempt.prefillCall?.failure !== undefined) {
      this.#owner.handoverFailed(this);
      return;
    }
    this.#state = 'taken';
    this.#timer.cancel();
    this.#owner.handedOver(this);
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#state === 'taken') this.#owner.tokens(choice, ids, start, count);
  }

  output(output: EngineOutput): void {
    if (this.#state === 'taken') this.#owner.output(output);
  }

  end(): void {
    if (this.#state === 'taken') this.#owner.end();
  }

  moveAsked(): void {
    if (this.#state === 'taken') this.#owner.moveAsked?.();
  }

  fail(error: ServeError): void {
    if (this.#state === 'taken') {
      this.#owner.fail(error);
      return;
    }
    const { reservation } = this.attempt;
    if (reservation !== undefined) avoidAfter(this.#context, reservation.worker, error);
    this.#owner.handoverFailed(this);
  }

  async #start(): Promise<void> {
    const { isSplit, routed } = this.#search;
    if (isSplit) this.#hold(); // the prefill is for the tokens so far
    const found = await this.#find(requestOf(this.#budget));
    if (this.#state === 'over') return found.reservation.release();
    this.attempt.reservation = found.reservation;
    if (!isSplit) this.#hold();
    if (!this.#budget.isOpen) throw workerError('Unavailable', 'it has grown too long to move');
    const { input, stop } = requestOf(this.#budget); // with the tokens that came meanwhile
    const request = { ...found.request, input, stop };
    this.attempt.send(this.#context, { request, routed, isRetry: true }, found.reservation, this);
  }

  /** Finds a worker other than the present one, without a wait for a worker to start. */
  async #find(request: EngineRequest): Promise<Extract<Found, { kind: 'worker' }>> {
    const routed = { ...this.#search.routed, signal: this.#aborter.signal };
    const choice = new WorkerChoice({ ...this.#context, hold: undefined }, routed, this, true);
    const eligibility = new WorkerEligibility(this.#context, routed);
    const left = this.#from.reservation?.worker;
    if (left !== undefined) choice.eligibility.failedAt(left);
    const ask = { routed, choice, eligibility, mayRetry: () => false, couldRetry: () => false };
    const found = await this.#search.findFor(request, this.attempt, ask);
    if (found.kind === 'worker') return found;
    found.prefillCall.abandon();
    throw workerError('Unavailable', 'one token is left to make');
  }

  /** Holds back output of the present worker from now on: at most one more credit window. */
  #hold(): void {
    if (this.#state === 'over') return;
    this.#held ??= [];
    this.#from.call?.pause();
  }
}

/** Returns the request for the tokens that are left. @throws ServeError if none is */
function requestOf(budget: MigrationBudget): EngineRequest {
  const request = budget.continuation();
  if (request === undefined) throw workerError('Unavailable', 'no token is left to make');
  return request;
}
