import type { Timer } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import type { CallSink } from '../../planes/index.ts';
import type { EngineOutput } from '../../protocol/index.ts';
import { Attempt } from './attempt.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { avoidAfter, WorkerChoice, WorkerEligibility } from './worker-choice.ts';

/** How long it may take until another worker has the stream. The one that wants to be rid of it asks again. */
const HANDOVER_MS_MAX = 10_000;

/** Whose stream it is. */
export interface HandoverHost extends CallSink {
  /** Another worker has taken the stream, and what it says of it comes here from now on. */
  handedOver(handover: Handover): void;
  /** Nobody has taken it. */
  handoverFailed(handover: Handover): void;
}

interface HandoverOptions {
  readonly context: RunContext;
  readonly routed: RoutedRequest;
  readonly from: Attempt;
  readonly host: HandoverHost;
}

/**
 * Has another worker go on with a stream that its present one wants to be rid of, and keeps until then: the new one begins after the
 * last token that the client has, so what the present one says meanwhile is kept back. The client gets it where the handover
 * fails, and the new worker's own words where it does not.
 *
 * | State | sent | accepted | refused, nobody, late | present worker ends or fails, client gone |
 * |---|---|---|---|---|
 * | choosing | -> sent | - | -> over | -> over |
 * | sent | - | -> taken | -> over | -> over |
 * | taken | - | - | to the host | - |
 */
export class Handover implements CallSink {
  readonly attempt: Attempt;
  /** The request for as long as the handover is under way. */
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
    this.choice = new WorkerChoice({ ...context, hold: undefined }, this.routed, this, true); // nobody waits for a worker that may come
    this.prefillers = new WorkerEligibility(context, this.routed);
    if (from.reservation !== undefined) this.choice.eligibility.failedAt(from.reservation.worker.id);
    this.#timer = context.clock.after(HANDOVER_MS_MAX, () => host.handoverFailed(this));
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** Whether what the present worker says is kept back. */
  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** From now on. */
  hold(): void {
    this.#held ??= [];
  }

  /** Bounded by the credit of the present worker, whose call is paused. */
  keep(say: () => void): void {
    this.#held?.push(say);
  }

  /** Gives up; returns what was kept back. */
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
    if (this.attempt.leg?.failure !== undefined) {
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
