import type { Timer } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import type { CallSink } from '../../planes/index.ts';
import type { EngineOutput } from '../../protocol/index.ts';
import { Attempt } from './attempt.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { avoidAfter, WorkerChoice, WorkerEligibility } from './worker-choice.ts';

/** Longest time until another worker has the stream. After it the worker that drains asks again. */
const HANDOVER_MS_MAX = 10_000;

/** Owner of the stream. */
export interface HandoverHost extends CallSink {
  /** Called when another worker has taken the stream. Its output comes here from now on. */
  handedOver(handover: Handover): void;
  /** Called if no worker has taken the stream. */
  handoverFailed(handover: Handover): void;
}

interface HandoverOptions {
  readonly context: RunContext;
  readonly routed: RoutedRequest;
  readonly from: Attempt;
  readonly host: HandoverHost;
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
 * | taken | - | - | to the host | - |
 */
export class Handover implements CallSink {
  readonly attempt: Attempt;
  /** The request, with a signal that also ends with the handover. */
  readonly routed: RoutedRequest;
  readonly choice: WorkerChoice;
  readonly prefillers: WorkerEligibility;
  /** When the search for another worker began. */
  readonly sinceMs: number;
  readonly #options: HandoverOptions;
  readonly #aborter = new AbortController();
  readonly #timer: Timer;
  #state: 'under way' | 'taken' | 'over' = 'under way';
  #held: (() => void)[] | undefined;

  constructor(options: HandoverOptions) {
    const { context, routed, from, host } = options;
    this.#options = options;
    this.attempt = new Attempt(from);
    this.sinceMs = context.clock.nowMs();
    this.routed = { ...routed, signal: this.#aborter.signal };
    // Without a hold: a handover does not wait for a worker to start.
    this.choice = new WorkerChoice({ ...context, hold: undefined }, this.routed, this, true);
    this.prefillers = new WorkerEligibility(context, this.routed);
    if (from.reservation !== undefined) this.choice.eligibility.failedAt(from.reservation.worker.id);
    this.#timer = context.clock.after(HANDOVER_MS_MAX, () => host.handoverFailed(this));
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** Whether output of the present worker is held back. */
  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** Holds back output of the present worker from now on. */
  hold(): void {
    this.#held ??= [];
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
    const { host } = this.#options;
    if (this.attempt.prefillCall?.failure !== undefined) {
      host.handoverFailed(this);
      return;
    }
    this.#state = 'taken';
    this.#timer.cancel();
    host.handedOver(this);
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#state === 'taken') this.#options.host.tokens(choice, ids, start, count);
  }

  output(output: EngineOutput): void {
    if (this.#state === 'taken') this.#options.host.output(output);
  }

  end(): void {
    if (this.#state === 'taken') this.#options.host.end();
  }

  moveAsked(): void {
    if (this.#state === 'taken') this.#options.host.moveAsked?.();
  }

  fail(error: ServeError): void {
    const { host, context } = this.#options;
    if (this.#state === 'taken') {
      host.fail(error);
      return;
    }
    const { reservation } = this.attempt;
    if (reservation !== undefined) avoidAfter(context, reservation.worker.id, error);
    host.handoverFailed(this);
  }
}
