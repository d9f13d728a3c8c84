import type { FinishReason } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import { BodyCalls, type CallDelta, type CallRules } from './body-calls.ts';
import { chatLogprobs, completionLogprobs, finishOf, SAID_KEYS, type Said, saidIn } from './body-words.ts';

/** Terms by which a choice of a body is read. */
export interface ChoiceTerms extends Omit<CallRules, 'idOf'> {
  readonly isChat: boolean;
  idOf(choice: number, index: number): string;
}

/** An entry of `choices` of a chunk in the published shape; with `delta` of a chat, with `text` of completions. */
export type ChunkChoice = UnknownRecord & { readonly index: number };

/** Keys that this file reads. Every other key of a choice belongs to the worker and is passed on. */
const READ_KEYS: ReadonlySet<string> = new Set([
  'index',
  'delta',
  'message',
  'text',
  'finish_reason',
  'logprobs',
  'usage',
]);
const CALL_KEYS: ReadonlySet<string> = new Set(['role', 'tool_calls', 'function_call']);

/**
 * One choice of an answer in bodies. It puts each piece in the published shape: the role once, text as text, calls by
 * number, and the end only in the last piece.
 */
export class BodyChoice {
  readonly index: number;
  readonly #terms: ChoiceTerms;
  readonly #calls: BodyCalls;
  #hasBegun = false;
  #chars = 0;
  #finish: FinishReason | undefined;
  /** Text of the last piece. The caller counts its tokens. */
  lastText = '';

  constructor(index: number, terms: ChoiceTerms) {
    this.index = index;
    this.#terms = terms;
    this.#calls = new BodyCalls({ ...terms, idOf: (call) => terms.idOf(index, call) });
  }

  /** Whether the worker has sent its finish reason. */
  get isFinished(): boolean {
    return this.#finish !== undefined;
  }

  /** @throws ServeError for an end that is a failure; as `BodyCalls.read` */
  read(choice: UnknownRecord): ChunkChoice | undefined {
    this.#noteFinish(finishOf(choice.finish_reason));
    return this.#terms.isChat ? this.#readChat(choice) : this.#readText(choice);
  }

  /** Takes a finish reason that the worker sent outside of the body. */
  told(finish: FinishReason): void {
    if (this.#finish === undefined) this.#noteFinish(finish);
  }

  /**
   * Returns the rest of the choice, with its end. @param isAtLimit whether it has as many tokens as the request allows
   */
  end(isAtLimit: boolean): ChunkChoice {
    const finish_reason = this.#reason(isAtLimit);
    if (!this.#terms.isChat) return { index: this.index, text: '', logprobs: null, finish_reason };
    const calls = this.#calls.end(finish_reason === 'length');
    const delta = this.#delta({ content: this.#calls.orphans, reasoning: '', refusal: '' }, calls, {});
    return { index: this.index, delta, logprobs: null, finish_reason };
  }

  #noteFinish(finish: FinishReason | undefined): void {
    if (finish !== undefined && (this.#finish === undefined || this.#finish === 'stop')) this.#finish = finish;
  }

  /**
   * Returns the finish reason of the choice. Unless it ends by its length or a content filter, it ends with
   * `tool_calls` exactly if it has calls, whatever reason the worker gives.
   */
  #reason(isAtLimit: boolean): FinishReason {
    const told = this.#finish;
    if (told === 'length' || told === 'content_filter') return told;
    if (!this.#calls.isEmpty) return 'tool_calls';
    return told === undefined && isAtLimit ? 'length' : 'stop';
  }

  #readChat(choice: UnknownRecord): ChunkChoice | undefined {
    const message = isRecord(choice.delta) ? choice.delta : isRecord(choice.message) ? choice.message : {};
    const asText = typeof choice.text === 'string' ? choice.text : '';
    const all = saidIn(message);
    const said = all.content === '' && asText !== '' ? { ...all, content: asText } : all;
    if (!isRecord(choice.delta) && this.#isRepeated(said.content)) return undefined;
    const { tool_calls: parts, function_call: legacy } = message;
    const calls = this.#calls.read([...(Array.isArray(parts) ? parts : []), ...(isRecord(legacy) ? [legacy] : [])]);
    const logprobs = chatLogprobs(choice.logprobs);
    const more = othersOf(message, (key) => SAID_KEYS.has(key) || CALL_KEYS.has(key));
    const own = othersOf(choice, (key) => READ_KEYS.has(key));
    this.lastText = said.reasoning + said.content + said.refusal + calls.map(textOf).join('');
    const isSilent = this.lastText === '' && said.parts === undefined;
    const saysNothing = isSilent && calls.length === 0 && logprobs === undefined;
    if (saysNothing && isEmpty(more) && isEmpty(own)) return undefined;
    this.#chars += said.content.length;
    const delta = this.#delta(said, calls, more);
    return { index: this.index, delta, finish_reason: null, logprobs: logprobs ?? null, ...own };
  }

  /** Whether `content` repeats the whole message at the end of a stream that has already sent it. */
  #isRepeated(content: string): boolean {
    return this.#chars > 0 && content.length === this.#chars;
  }

  #delta(said: Said, calls: readonly CallDelta[], more: UnknownRecord): UnknownRecord {
    const isFirst = !this.#hasBegun;
    this.#hasBegun = true;
    const content = said.parts ?? (said.content || (isFirst ? firstContent(calls) : undefined));
    return {
      ...(isFirst ? { role: 'assistant' } : {}),
      ...(content === undefined ? {} : { content }),
      ...(said.reasoning === '' ? {} : { reasoning_content: said.reasoning }),
      ...(said.refusal === '' ? {} : { refusal: said.refusal }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...more,
    };
  }

  #readText(choice: UnknownRecord): ChunkChoice | undefined {
    const message = isRecord(choice.delta) ? choice.delta : choice.message;
    const text = typeof choice.text === 'string' ? choice.text : isRecord(message) ? saidIn(message).content : '';
    if (choice.text === undefined && !isRecord(choice.delta) && this.#isRepeated(text)) return undefined;
    const logprobs = completionLogprobs(choice.logprobs);
    const own = othersOf(choice, (key) => READ_KEYS.has(key));
    this.lastText = text;
    if (text === '' && logprobs === undefined && isEmpty(own)) return undefined;
    this.#chars += text.length;
    return { text, index: this.index, logprobs: logprobs ?? null, finish_reason: null, ...own };
  }
}

/** Returns the content of a first piece: null if the piece is a call, otherwise a text. */
function firstContent(calls: readonly CallDelta[]): string | null {
  return calls.length === 0 ? '' : null;
}

function textOf({ function: { name = '', arguments: text } }: CallDelta): string {
  return name + text;
}

/** Returns the values of all other keys that are not null. */
function othersOf(record: UnknownRecord, isRead: (key: string) => boolean): UnknownRecord {
  let others: Record<string, unknown> | undefined;
  for (const key in record) {
    const value = record[key];
    if (value === null || value === undefined || isRead(key)) continue;
    others ??= {};
    others[key] = value;
  }
  return others ?? NOTHING;
}

const NOTHING: UnknownRecord = Object.freeze({});

function isEmpty(record: UnknownRecord): boolean {
  return record === NOTHING;
}
