import type { Clock, Timer } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import type { ChooseMessage } from './messages.ts';
import type { AskedCall, ChooseSink } from './resident-channel.ts';
import type { ChosenWorker } from './types.ts';

/**
 * Why a resident router did not decide. `standby`: it leaves that to another one. `lost`: it could not be reached, or went
 * away. `silent`: its first message did not come in time.
 */
export type UnansweredReason = 'standby' | 'lost' | 'silent';

/** What became of one question to one resident router. */
export type ChooseAnswer =
  | { readonly kind: 'decided'; readonly chosen: ChosenWorker }
  /** It decided that nobody takes the request. */
  | { readonly kind: 'rejected'; readonly error: ServeError }
  | { readonly kind: 'unanswered'; readonly reason: UnansweredReason };

export interface ChooseCallOptions {
  readonly clock: Clock;
  /** The first message must be there within. */
  readonly firstMessageMs: number;
  /** The request's own end. */
  readonly signal: AbortSignal;
  /** A decision that came too late holds a place that nobody will use. */
  onLate(chosen: ChosenWorker): void;
  settled(answer: ChooseAnswer): void;
  /** The signal aborted first. */
  aborted(reason: unknown): void;
  /** Runs `look` when everything that has arrived by now was read. @default the next turn of the event loop */
  readonly lastLook?: ((look: () => void) => void) | undefined;
}

/** How long a late answer is waited for, to give its place back; then the resident frees it by itself. */
const LATE_MS_MAX = 2000;

/**
 * The caller's side of one `Choose`.
 *
 * | State | queued | decision | failure, end | no message in time | signal |
 * |---|---|---|---|---|---|
 * | waiting | -> queued | decided | rejected or unanswered | unanswered, -> late | killed |
 * | queued | - | decided | rejected or unanswered | - | killed: leaves the queue |
 * | late | killed | place given back | - | - | - |
 */
export class ChooseCall implements ChooseSink {
  readonly #options: ChooseCallOptions;
  #state: 'waiting' | 'queued' | 'late' | 'over' = 'waiting';
  #call: AskedCall | undefined;
  #timer: Timer | undefined;

  constructor(options: ChooseCallOptions) {
    this.#options = options;
    const { clock, firstMessageMs, signal, lastLook = setImmediate } = options;
    // A busy process may find the timer due before it has read the answer that is there.
    this.#timer = clock.after(firstMessageMs, () => lastLook(() => this.#giveUp()));
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** The call that this is the sink of. */
  attach(call: AskedCall): void {
    this.#call = call;
    if (this.#options.signal.aborted) this.#onAbort();
  }

  message(message: ChooseMessage): void {
    if (this.#state === 'over') return;
    if (this.#state === 'late') this.#takeLate(message);
    else if (message.kind === 'decision') this.#settle({ kind: 'decided', chosen: message.chosen });
    else this.#wait();
  }

  end(): void {
    this.#settle({ kind: 'unanswered', reason: 'lost' });
  }

  fail(error: ServeError): void {
    this.#settle(isDecision(error) ? { kind: 'rejected', error } : { kind: 'unanswered', reason: reasonOf(error) });
  }

  #wait(): void {
    this.#state = 'queued';
    this.#timer?.cancel();
  }

  #takeLate(message: ChooseMessage): void {
    if (message.kind === 'decision') this.#options.onLate(message.chosen);
    else this.#call?.kill();
    this.#close();
  }

  #giveUp(): void {
    if (this.#state !== 'waiting') return;
    this.#state = 'late';
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#timer = this.#options.clock.after(LATE_MS_MAX, () => {
      this.#call?.kill();
      this.#close();
    });
    this.#options.settled({ kind: 'unanswered', reason: 'silent' });
  }

  #settle(answer: ChooseAnswer): void {
    const isAwaited = this.#state === 'waiting' || this.#state === 'queued';
    this.#close();
    if (isAwaited) this.#options.settled(answer);
  }

  #close(): void {
    this.#state = 'over';
    this.#timer?.cancel();
    this.#options.signal.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => {
    if (this.#state === 'over') return;
    this.#close();
    this.#call?.kill();
    this.#options.aborted(this.#options.signal.reason);
  };
}

/** Whether the router has said no, rather than nothing: a full fleet, or a mistake of the client. */
function isDecision({ code }: ServeError): boolean {
  return code === 'server_overloaded' || code === 'invalid_value';
}

function reasonOf({ worker }: ServeError): UnansweredReason {
  return worker === 'WorkerUnavailable' ? 'standby' : 'lost';
}
