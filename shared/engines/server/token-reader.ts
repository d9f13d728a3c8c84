import { workerError } from '../../errors/index.ts';
import {
  type CompletionUsage,
  type EngineFinishReason,
  type EngineOutput,
  type EngineRequest,
  type TopLogprob,
  textFinishOf,
} from '../../protocol/index.ts';
import { grown } from '../../records/index.ts';
import { type AnswerReader, readEvent } from '../http/exchange.ts';
import type { EngineSink } from '../types.ts';

const DIGIT_0 = 48;

const COMMA = 44;

const CLOSE = 93;

const ID_MAX = 0xffff_ffff;

let ids = new Uint32Array(1024);

const scanned = { ids, count: 0 };

/** Output for one choice in one event of an engine. */
export interface TokenDelta {
  readonly index: number;
  /** Only the new ids. */
  readonly tokenIds: readonly number[];
  /** Finish in the engine's own words: `stop`, `length`, `abort`, ... */
  readonly finish: string | undefined;
  readonly stopReason: string | number | undefined;
  readonly logprobs: readonly number[] | undefined;
  readonly topLogprobs: readonly (readonly TopLogprob[])[] | undefined;
}

/** One event, or the whole answer. */
export interface TokenAnswer {
  readonly deltas: readonly TokenDelta[];
  readonly usage: CompletionUsage | undefined;
  readonly kvTransferParams: unknown;
  readonly promptLogprobs: unknown;
}

export interface TokenReaderOptions {
  readonly request: EngineRequest;
  readonly sink: EngineSink;
  /** Text before the ids of an event, e.g. `"token_ids":[`. Inside a JSON text its quotes would be escaped. */
  readonly idsMarker: string;
  /** Text before the number of tokens so far, if the ids of an event may be all of them. */
  readonly totalMarker?: string;
  /** Reads an event that has more than ids. `sent` returns how many tokens of a choice were passed on. */
  read(body: Readonly<Record<string, unknown>>, sent: (index: number) => number): TokenAnswer;
  /** Parses whole answers; see `AnswerReader`. */
  readonly parse?: ((text: string) => unknown) | undefined;
  /** Converts the answer of a prefill to the parameters for the decode worker. */
  prefillResult?: ((answer: TokenAnswer) => unknown) | undefined;
}

const UNFINISHED = '"finish_reason":null';

interface Choice {
  generated: number;
  lastToken: number | undefined;
  isFinished: boolean;
}

/**
 * Reads tokens from an engine's answer. An event with only the next ids of a single choice, as nearly all have, is not
 * parsed: its ids are read in place and passed on without an object.
 */
export class TokenReader implements AnswerReader {
  readonly parse: AnswerReader['parse'];
  readonly #options: TokenReaderOptions;
  readonly #isPlain: boolean;
  readonly #choices: Choice[];
  #unfinished: number;

  constructor(options: TokenReaderOptions) {
    const { request } = options;
    this.parse = options.parse;
    this.#options = options;
    const count = Math.max(1, request.sampling.n ?? 1);
    this.#isPlain = count === 1 && request.output.logprobs === undefined;
    this.#choices = Array.from({ length: count }, () => ({ generated: 0, lastToken: undefined, isFinished: false }));
    this.#unfinished = count;
  }

  get isFinished(): boolean {
    return this.#unfinished === 0; // checked after each event
  }

  event(data: string, name: string): void {
    if (this.#isPlain && this.#fastEvent(data)) return;
    const body = readEvent(data, name);
    if (body !== undefined) this.#write(this.#options.read(body, (index) => this.#choiceAt(index).generated));
  }

  whole(body: object): void {
    this.#write(this.#options.read(body as Readonly<Record<string, unknown>>, () => 0));
    this.finish(true);
  }

  /** Ends the answer. Infers the finish of choices without one. */
  finish(isSaid: boolean): void {
    const { request, sink } = this.#options;
    for (const [index, choice] of this.#choices.entries()) {
      if (choice.isFinished) continue;
      const reason = isSaid ? inferFinish(request, choice) : undefined;
      if (reason === undefined) {
        throw workerError('StreamIncomplete', 'the engine ended its stream without a finish reason');
      }
      this.#end(choice);
      sink.output({ index, finish_reason: reason });
    }
  }

  /** Returns whether the event had only ids and was handled. */
  #fastEvent(data: string): boolean {
    const { idsMarker, totalMarker, sink } = this.#options;
    if (!data.includes(UNFINISHED)) return false;
    const scanned = scanTokenIds(data, idsMarker);
    if (scanned === undefined) return false;
    const choice = this.#choices[0]!; // there is at least one
    let fresh = scanned.count;
    if (totalMarker !== undefined) {
      const total = numberBehind(data, totalMarker);
      if (total === undefined || total < choice.generated || total - choice.generated > scanned.count) return false;
      fresh = total - choice.generated;
    }
    if (fresh === 0) return true;
    choice.generated += fresh;
    choice.lastToken = scanned.ids[scanned.count - 1];
    sink.tokens(0, scanned.ids, scanned.count - fresh, fresh);
    return true;
  }

  #write(answer: TokenAnswer): void {
    const { sink, prefillResult } = this.#options;
    for (const delta of answer.deltas) this.#delta(delta, prefillResult?.(answer));
    const data = answer.promptLogprobs;
    if (answer.usage === undefined && data === undefined) return;
    sink.output({
      ...(answer.usage === undefined ? {} : { completion_usage: answer.usage }),
      ...(data === undefined ? {} : { engine_data: { prompt_logprobs: data } }),
    });
  }

  #delta(delta: TokenDelta, disaggregated: unknown): void {
    const { request, sink } = this.#options;
    const choice = this.#choiceAt(delta.index);
    if (choice.isFinished) return;
    checkIds(delta.tokenIds);
    choice.generated += delta.tokenIds.length;
    choice.lastToken = delta.tokenIds.at(-1) ?? choice.lastToken;
    if (delta.finish === undefined && delta.tokenIds.length === 0) return;
    const output: EngineOutput = {
      index: delta.index,
      token_ids: delta.tokenIds,
      ...(delta.logprobs === undefined ? {} : { log_probs: delta.logprobs }),
      ...(delta.topLogprobs === undefined ? {} : { top_logprobs: delta.topLogprobs }),
    };
    if (delta.finish === undefined) {
      sink.output(output);
      return;
    }
    this.#end(choice);
    const isHidden = typeof delta.stopReason === 'number' && isEnd(request, delta.stopReason);
    sink.output({
      ...output,
      finish_reason: finishOf(delta.finish),
      ...(delta.stopReason === undefined || isHidden ? {} : { stop_reason: delta.stopReason }),
      ...(disaggregated === undefined ? {} : { disaggregated_params: disaggregated }),
    });
  }

  #end(choice: Choice): void {
    choice.isFinished = true;
    this.#unfinished--;
  }

  #choiceAt(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw workerError('BackendProtocol', `the engine answered with a choice ${index}`);
    return choice;
  }
}

/**
 * Returns the reason for the engine's own word.
 * @throws ServeError `WorkerUnavailable` if the engine aborted the request: another one may take it
 */
function finishOf(word: string): EngineFinishReason {
  const reason = textFinishOf(word);
  if (reason !== undefined) return reason;
  if (word === 'abort') throw workerError('WorkerUnavailable', 'the engine aborted the request');
  // `error`, or an unknown word: half an answer counts as none
  return { error: `the engine ended its answer with the finish reason ${JSON.stringify(word.slice(0, 100))}` };
}

function inferFinish({ stop, eosTokenIds }: EngineRequest, choice: Choice): EngineFinishReason | undefined {
  if (stop.max_tokens !== undefined && choice.generated >= stop.max_tokens) return 'length';
  if (choice.lastToken === undefined) return undefined;
  const ends = [...eosTokenIds, ...stopIds(stop)];
  return ends.includes(choice.lastToken) ? 'stop' : undefined;
}

/** Returns all ids that end the output, as engines take them. */
export function stopIds(stop: EngineRequest['stop']): readonly number[] {
  const { stop_token_ids = [], stop_token_ids_hidden = [], stop_token_ids_visible = [] } = stop;
  return [...new Set([...stop_token_ids, ...stop_token_ids_hidden, ...stop_token_ids_visible])];
}

/** Returns whether the id is the model's own end, which is not a `stop_reason`. */
function isEnd({ stop, eosTokenIds }: EngineRequest, id: number): boolean {
  return eosTokenIds.includes(id) || (stop.stop_token_ids_hidden ?? []).includes(id);
}

function checkIds(ids: readonly number[]): void {
  for (const id of ids) {
    if (!Number.isInteger(id) || id < 0 || id > 0xffff_ffff) {
      throw workerError('BackendProtocol', `the engine answered with the token id ${JSON.stringify(id)}`);
    }
  }
}

function numberBehind(text: string, marker: string): number | undefined {
  const at = text.indexOf(marker);
  if (at < 0) return undefined;
  let value = 0;
  let digits = 0;
  for (let next = at + marker.length; next < text.length; next++, digits++) {
    const digit = text.charCodeAt(next) - 48;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
  }
  return digits === 0 ? undefined : value;
}

/**
 * Scans the ids of the list after the first `marker` in `text`; undefined when there is none or it holds anything but
 * plain ids without spaces. The array is valid until the next call.
 */
export function scanTokenIds(
  text: string,
  marker: string,
): { readonly ids: Uint32Array; readonly count: number } | undefined {
  const start = text.indexOf(marker);
  if (start < 0) return undefined;
  let count = 0;
  let value = -1; // no digit yet
  for (let at = start + marker.length; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const digit = code - DIGIT_0;
    if (digit >= 0 && digit <= 9) {
      value = value < 0 ? digit : value * 10 + digit;
      if (value > ID_MAX) return undefined;
      continue;
    }
    const isEmpty = code === CLOSE && count === 0 && value < 0;
    if ((code !== COMMA && code !== CLOSE) || (value < 0 && !isEmpty)) return undefined;
    if (!isEmpty) {
      if (count === ids.length) ids = grown(ids);
      ids[count++] = value;
      value = -1;
    }
    if (code === CLOSE) {
      scanned.ids = ids;
      scanned.count = count;
      return scanned;
    }
  }
  return undefined;
}

/** Returns a log probability. JSON has no minus infinity; engines use -9999 or null for it. */
export function logprobOf(value: unknown): number {
  return typeof value === 'number' ? value : -9999;
}
