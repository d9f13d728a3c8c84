import type { ServeError } from '../../errors/index.ts';
import type { EngineFinishReason, EngineOutput, EngineRequest, TopLogprob } from '../../protocol/index.ts';
import type { EngineSink } from '../types.ts';
import { Sequence, type TokenNames } from './sequence.ts';
import { NATURAL_END, type TokenCursor } from './token-cursor.ts';

/** One choice of a live request. */
export class LiveSequence extends Sequence {
  readonly request: LiveRequest;
  readonly choice: number;
  readonly text: TokenNames;
  readonly cursor: TokenCursor;

  constructor(request: LiveRequest, choice: number, text: TokenNames, cursor: TokenCursor, tokensMax: number) {
    super(text.length, text, text.length + tokensMax);
    this.request = request;
    this.choice = choice;
    this.text = text;
    this.cursor = cursor;
  }

  emit(): boolean {
    return this.request.emit(this);
  }
}

/** Conditions that end a choice of a request. */
export interface Limits {
  /** Most tokens of a choice; at least 1. */
  readonly tokensMax: number;
  readonly tokensMin: number;
  readonly ignoreEos: boolean;
  readonly eosIds: readonly number[];
  /** Every id that ends a choice: `eosIds` and the request's own. */
  readonly stopIds: readonly number[];
}

/** Returns the limits of `request`, of which `contextLeft` tokens of the context remain. */
export function limitsOf(request: EngineRequest, contextLeft: number): Limits {
  const { stop, eosTokenIds } = request;
  const eosIds = [...eosTokenIds, ...(stop.stop_token_ids_hidden ?? [])];
  const ignoreEos = stop.ignore_eos === true;
  const own = [...(stop.stop_token_ids ?? []), ...(stop.stop_token_ids_visible ?? [])];
  return {
    tokensMax: Math.min(stop.max_tokens ?? contextLeft, contextLeft),
    tokensMin: stop.min_tokens ?? 0,
    ignoreEos,
    eosIds,
    stopIds: ignoreEos ? own : [...eosIds, ...own],
  };
}

/** Request under way: turns the scheduler's steps into output. Plain tokens cost no object each. */
export class LiveRequest {
  readonly sink: EngineSink;
  readonly sequences: LiveSequence[] = [];
  readonly #limits: Limits;
  /** Alternatives for each token; undefined = no log probabilities. */
  readonly #logprobs: number | undefined;
  readonly #idCount: number;
  readonly #onDone: (request: LiveRequest) => void;
  readonly #keep: ((sequence: LiveSequence, reason: EngineFinishReason) => unknown) | undefined;
  #choicesOpen: number;
  #completionTokens = 0;

  /**
   * `idCount` bounds the ids of made-up alternatives. `onDone` runs before the sink's `end`. `keep` is called when the
   * last choice ends: it returns the data that a decode engine needs to continue from its blocks; undefined = nothing
   * is kept.
   */
  constructor(
    request: EngineRequest,
    sink: EngineSink,
    limits: Limits,
    idCount: number,
    onDone: (request: LiveRequest) => void,
    keep?: (sequence: LiveSequence, reason: EngineFinishReason) => unknown,
  ) {
    this.sink = sink;
    this.#limits = limits;
    this.#logprobs = request.output.logprobs;
    this.#idCount = idCount;
    this.#onDone = onDone;
    this.#keep = keep;
    this.#choicesOpen = choiceCount(request);
  }

  /** Gives `sequence` its next token. Returns true when the choice is finished. */
  emit(sequence: LiveSequence): boolean {
    const limits = this.#limits;
    const mayEnd = sequence.generated >= limits.tokensMin;
    const drawn = sequence.cursor.next(mayEnd && !limits.ignoreEos);
    const token = drawn === NATURAL_END ? limits.eosIds[0] : drawn;
    if (token === undefined) return this.#finish(sequence, 'eos', {}); // the model has no end token
    sequence.length++;
    this.#completionTokens++;
    if (mayEnd && limits.stopIds.includes(token)) return this.#finishAtStop(sequence, token);
    sequence.text.push(token);
    sequence.cursor.push(token);
    const isLast = sequence.generated >= limits.tokensMax;
    if (this.#logprobs === undefined) {
      this.sink.tokens(sequence.choice, sequence.text.tokens, sequence.length - 1, 1);
      return isLast && this.#finish(sequence, 'length', {});
    }
    const output = { token_ids: [token], index: sequence.choice, ...this.#logprobsOf(token) };
    if (isLast) return this.#finish(sequence, 'length', output);
    this.sink.output(output);
    return false;
  }

  /** Finishes at a stop token. The token goes out with the finish, so that a reader that hides it sees both at once. */
  #finishAtStop(sequence: LiveSequence, token: number): true {
    const output = { token_ids: [token], ...this.#logprobsOf(token) };
    if (this.#limits.eosIds.includes(token)) return this.#finish(sequence, 'eos', output);
    return this.#finish(sequence, 'stop', { ...output, stop_reason: token });
  }

  #finish(sequence: LiveSequence, reason: EngineFinishReason, output: EngineOutput): true {
    const isDone = --this.#choicesOpen === 0;
    const usage = isDone ? this.#usage() : undefined;
    const kept = isDone ? this.#keep?.(sequence, reason) : undefined;
    const handoff = kept === undefined ? undefined : { disaggregated_params: kept };
    this.sink.output({ ...output, finish_reason: reason, index: sequence.choice, ...usage, ...handoff });
    if (isDone) {
      this.#onDone(this);
      this.sink.end();
    }
    return true;
  }

  /** Fails the request before it has output. */
  fail(error: ServeError): void {
    this.#onDone(this);
    this.sink.fail(error);
  }

  #usage(): Pick<EngineOutput, 'completion_usage'> {
    const [first] = this.sequences;
    const promptTokens = first?.promptLength ?? 0;
    return {
      completion_usage: {
        prompt_tokens: promptTokens,
        completion_tokens: this.#completionTokens,
        total_tokens: promptTokens + this.#completionTokens,
        prompt_tokens_details: { cached_tokens: Math.max(0, first?.cachedTokens ?? 0) },
      },
    };
  }

  #logprobsOf(token: number): Pick<EngineOutput, 'log_probs' | 'top_logprobs'> {
    if (this.#logprobs === undefined) return {};
    const logprob = -0.01 * ((token % 50) + 1);
    const top: TopLogprob[] = [];
    for (let rank = 0; rank < this.#logprobs; rank++) {
      top.push({ rank, token_id: (token + rank) % this.#idCount, logprob: logprob - 0.5 * rank });
    }
    return { log_probs: [logprob], top_logprobs: [top] };
  }
}

/** Returns `n` of the request; at least 1. */
export function choiceCount(request: EngineRequest): number {
  return Math.max(1, request.sampling.n ?? 1);
}
