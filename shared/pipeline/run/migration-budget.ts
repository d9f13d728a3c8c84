import { isMigratable, type ServeError } from '../../errors/index.ts';
import { type EngineRequest, isMovable, isPinned } from '../../protocol/index.ts';
import type { MoveOutcome, RequestMove } from '../pipeline.ts';
import type { RunContext } from './run-context.ts';

/** A move to another worker that no worker has accepted yet. */
interface Move {
  readonly sinceMs: number;
  readonly type: 'new_request' | 'ongoing_request';
  readonly event: RequestMove;
}

/** The moves to other workers that one request has left, and the tokens that it takes along. */
export class MigrationBudget {
  readonly #context: RunContext;
  readonly #modelName: string;
  readonly #request: EngineRequest;
  readonly #promptTokens: number;
  readonly #isMovable: boolean;
  readonly #generated: GeneratedTokens | undefined;
  #left: number;
  /**
   * The move away from the last worker that had accepted the request. Workers that refused it since do not replace it.
   */
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

  /** Keeps tokens of the output, so that another worker can continue after them. */
  keep(ids: ArrayLike<number>, start: number, count: number): void {
    this.#generated?.add(ids, start, count);
  }

  /** Returns the request as the next worker gets it; undefined if no token is left to generate. */
  continuation(): EngineRequest | undefined {
    return continuationOf(this.#request, this.#generated);
  }

  /** Whether a stream that has begun may move: a move is left, and the request is not too long for it. */
  get isOpen(): boolean {
    return this.#left > 0 && this.#isMovable && !this.#isTooLong;
  }

  /**
   * Returns whether the request may move after `error`, and if so takes a move from the budget. A request that cannot
   * continue elsewhere (`isMovable`) may still go to another worker if the first one refused it.
   *
   * @param workerId worker that failed the request.
   * @param isPrefillLost whether the worker did not get the blocks of the prompt, whatever the class of `error`.
   * @param hasOutput whether the client has received a part of the answer.
   * @param sinceMs time at which the search for another worker began. @default now
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

  /** Notes that a worker has accepted the request. Returns whether that completes a move, and counts the move. */
  arrived(): boolean {
    const move = this.#move;
    if (move === undefined) return false;
    this.#end(move, 'success');
    const { observer } = this.#context;
    observer.migrated?.(this.#modelName, move.type);
    observer.moved?.(move.event);
    return true;
  }

  /** Notes that the request is over. A move under way ends with `outcome`. */
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

/** Token ids of the output so far, kept so that another worker can continue after them. */
export class GeneratedTokens {
  #ids = new Uint32Array(64);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#count + count > this.#ids.length) this.#grow(this.#count + count);
    for (let at = 0; at < count; at++) this.#ids[this.#count++] = ids[start + at] as number; // in the caller's range
  }

  /** Returns `prompt` followed by the output so far. */
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

/**
 * Returns the request that continues after `generated`, with reduced limits; undefined if no token is left to generate.
 */
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

/** Whether the worker has done nothing for the request: it could not be reached, or refused the request. */
function isRefusal({ worker: kind }: ServeError): boolean {
  return kind === 'WorkerOverloaded' || kind === 'WorkerUnavailable' || kind === 'CannotConnect';
}
