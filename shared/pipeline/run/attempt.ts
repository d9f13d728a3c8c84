import { isMigratable, type ServeError } from '../../errors/index.ts';
import type { Call } from '../../planes/index.ts';
import { type EngineRequest, isMovable, isPinned } from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Span } from '../../telemetry/index.ts';
import type { Worker } from '../models/routable-model.ts';
import type { MoveOutcome, RequestMove, StagePhase } from '../pipeline.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { RunContext } from './run-context.ts';
import { Waiting } from './waiting.ts';

/**
 * The span of one request at one worker, from sending it until leaving it.
 *
 * @param parent of the request; undefined where no spans are made
 * @param links the attempt before, the prefill that this decode goes on from
 */
export function dispatchSpan(
  parent: Span | undefined,
  phase: 'prefill' | 'decode',
  { worker, dpRank }: Reservation<Worker>,
  links: readonly Span['context'][] = [],
): Span | undefined {
  return parent?.child('dispatch', {
    kind: 'client',
    attributes: { phase, worker_id: worker.id, dp_rank: dpRank }, // the worker chooses its rank where nobody else has
    links,
  });
}

/** What tells a worker whose part its work is; nothing where no spans are made: it goes on from the request's own headers. */
export function traceHeaders(span: Span | undefined): Readonly<Record<string, string>> {
  return span === undefined ? NO_HEADERS : { traceparent: span.context.traceparent };
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** One try of a request at one decode worker, from choosing that until leaving it. */
export class Attempt {
  /** Computes the prompt elsewhere; undefined = its worker does. */
  prefillCall: PrefillCall | undefined;
  reservation: Reservation<Worker> | undefined;
  call: Call | undefined;
  /** From its worker. */
  outputTokens = 0;
  /** Its worker has said something of the answer, in tokens or in its own words. */
  hasBegun = false;
  #span: Span | undefined;
  #waiting: Waiting | undefined;
  /** Of the attempt before. */
  readonly #before: Span | undefined;

  constructor(before?: Attempt) {
    if (before !== undefined) this.#before = before.#span ?? before.#before;
  }

  /** The request goes to the worker of `reservation`. @param parent span of the request @returns the headers that tell the worker */
  beginSpan(reservation: Reservation<Worker>, parent: Span | undefined): Readonly<Record<string, string>> {
    if (parent === undefined) return NO_HEADERS;
    const links = [this.#before, this.prefillCall?.span].flatMap((span) => span?.context ?? []);
    this.#span = dispatchSpan(parent, 'decode', reservation, links);
    parent.set({
      prefill_worker_id: (this.prefillCall?.worker ?? reservation.worker).id,
      decode_worker_id: reservation.worker.id,
    });
    return traceHeaders(this.#span);
  }

  /** The request is on its way to the worker. */
  sent({ observer, clock }: Pick<RunContext, 'observer' | 'clock'>, phase: StagePhase): void {
    this.#waiting = new Waiting(observer, clock, phase);
  }

  /** The worker has said something, for the first time or again. */
  answered(): void {
    this.#waiting?.end(true);
    this.#waiting = undefined;
  }

  /**
   * Its worker has no more to do with the request. Idempotent.
   * @param error why the attempt failed
   * @param why it ended before its time without having failed
   */
  leave(error: string | undefined, why?: 'moved' | 'cancelled' | 'given up'): void {
    this.#span?.set({ ended_by: why });
    this.#span?.end(error); // the first end counts
    this.#waiting?.end(false);
    this.#waiting = undefined;
    if (this.outputTokens === 0) this.prefillCall?.abandon();
    this.prefillCall = undefined;
    this.reservation?.release();
    this.reservation = undefined;
    this.call = undefined;
  }
}

/** Why a request is sent to another worker, until that one has taken it. */
interface Move {
  readonly sinceMs: number;
  readonly type: 'new_request' | 'ongoing_request';
  readonly event: RequestMove;
}

/** What one request has left of its moves to other workers, and what it takes along. */
export class MigrationBudget {
  readonly #context: RunContext;
  readonly #modelName: string;
  readonly #request: EngineRequest;
  readonly #promptTokens: number;
  readonly #isMovable: boolean;
  readonly #generated: GeneratedTokens | undefined;
  #left: number;
  /** From the last worker that had the request; those that turned it away since then do not count. */
  #move: Move | undefined;

  /** @param modelName primary name of the model, for the metrics */
  constructor(context: RunContext, modelName: string, request: EngineRequest, promptTokens: number) {
    this.#context = context;
    this.#modelName = modelName;
    this.#request = request;
    this.#promptTokens = promptTokens;
    this.#left = isPinned(request) ? 0 : context.migrationLimit;
    this.#isMovable = isMovable(request);
    this.#generated = this.#left > 0 && this.#isMovable ? new GeneratedTokens() : undefined;
  }

  /** Keeps what the worker made, for the next one to go on from. */
  keep(ids: ArrayLike<number>, start: number, count: number): void {
    this.#generated?.add(ids, start, count);
  }

  /** The request as the next worker gets it; undefined when no token is left to make. */
  continuation(): EngineRequest | undefined {
    return continuationOf(this.#request, this.#generated);
  }

  /** Whether what has begun may move once more: a move is left, and the request not too long for it. */
  get isOpen(): boolean {
    return this.#left > 0 && this.#isMovable && !this.#isTooLong;
  }

  /**
   * Whether the request may move after `error`; takes a move from the budget when it may. One that cannot go on elsewhere may still be
   * offered to another worker when the first did not take it.
   *
   * @param workerId who failed it
   * @param isPrefillLost the worker did not get the blocks of the prompt, whatever the class of `error`
   * @param hasOutput the client has had some of the answer
   * @param sinceMs when the search for another worker began. @default now
   */
  take(
    error: ServeError,
    workerId: string | undefined,
    isPrefillLost: boolean,
    hasOutput: boolean,
    sinceMs = this.#context.clock.nowMs(),
  ): boolean {
    if (this.#left <= 0 || !(isPrefillLost || isMigratable(error))) return false;
    if (!this.#isMovable && (hasOutput || !isRefusal(error))) return false;
    const { observer } = this.#context;
    if (this.#isTooLong) {
      observer.migrationTooLong?.(this.#modelName);
      return false;
    }
    this.#left--;
    this.#move ??= {
      sinceMs,
      type: hasOutput ? 'ongoing_request' : 'new_request',
      event: {
        requestId: this.#request.id,
        model: this.#modelName,
        workerId,
        reason: error.worker ?? error.code,
        outputTokens: this.#generated?.count ?? 0,
      },
    };
    return true;
  }

  /** A worker has taken the request: returns whether that was a move, and counts it. */
  arrived(): boolean {
    const move = this.#move;
    if (move === undefined) return false;
    this.#end(move, 'success');
    const { observer } = this.#context;
    observer.migrated?.(this.#modelName, move.type);
    observer.moved?.(move.event);
    return true;
  }

  /** The request is over, whether or not it was to move. */
  over(outcome: 'failure' | 'cancelled'): void {
    if (this.#move !== undefined) this.#end(this.#move, outcome);
  }

  #end(move: Move, outcome: MoveOutcome): void {
    this.#move = undefined;
    const { observer, clock } = this.#context;
    observer.migrationTook?.(this.#modelName, move.type, outcome, clock.nowMs() - move.sinceMs);
  }

  get #isTooLong(): boolean {
    const { migrationTokensMax } = this.#context;
    if (migrationTokensMax === undefined) return false;
    return this.#promptTokens + (this.#generated?.count ?? 0) > migrationTokensMax;
  }
}

/** Token ids of the output so far, kept so that another worker can go on from them. */
export class GeneratedTokens {
  #ids = new Uint32Array(64);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#count + count > this.#ids.length) this.#grow(this.#count + count);
    for (let at = 0; at < count; at++) this.#ids[this.#count++] = ids[start + at] as number; // inside the caller's range
  }

  /** `prompt` followed by the output so far. */
  after(prompt: Uint32Array): Uint32Array {
    const all = new Uint32Array(prompt.length + this.#count);
    all.set(prompt);
    all.set(this.#ids.subarray(0, this.#count), prompt.length);
    return all;
  }

  #grow(atLeast: number): void {
    const larger = new Uint32Array(Math.max(atLeast, this.#ids.length * 2));
    larger.set(this.#ids);
    this.#ids = larger;
  }
}

/** The request that goes on after `generated`, with reduced budgets; undefined when no token is left to make. */
export function continuationOf(
  request: EngineRequest,
  generated: GeneratedTokens | undefined,
): EngineRequest | undefined {
  if (generated === undefined || generated.count === 0 || request.input.kind !== 'tokens') return request;
  const { max_tokens: maxTokens, min_tokens: minTokens } = request.stop;
  if (maxTokens !== undefined && maxTokens <= generated.count) return undefined;
  return {
    ...request,
    input: { ...request.input, tokenIds: generated.after(request.input.tokenIds) },
    stop: {
      ...request.stop,
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens - generated.count }),
      ...(minTokens === undefined ? {} : { min_tokens: Math.max(0, minTokens - generated.count) }),
    },
  };
}

/** The worker has done nothing for the request: it was never there, or turned it away. */
function isRefusal({ worker: kind }: ServeError): boolean {
  return kind === 'WorkerOverloaded' || kind === 'WorkerUnavailable' || kind === 'CannotConnect';
}
