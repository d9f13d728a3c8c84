import { workerError } from '../../../errors/index.ts';
import { type FinishReason, finishReasonOf } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';

/**
 * Returns the finish reason that a worker gives for a choice; undefined if it gives none.
 * @throws ServeError `internal_error` if the choice failed, was given up, or ended for an unknown reason, because half
 * an answer must not look complete
 */
export function finishOf(told: unknown): FinishReason | undefined {
  const word = isRecord(told) ? told.type : told;
  if (word === undefined || word === null || word === '' || word === false) return undefined;
  const known = typeof word === 'string' ? finishReasonOf(word) : undefined;
  if (known !== undefined) return known;
  const shown = JSON.stringify(word).slice(0, 100);
  throw workerError('Internal', `the worker ended a choice with the finish reason ${shown}`);
}

/** The parts of a piece of an answer. */
export interface Said {
  readonly content: string;
  readonly reasoning: string;
  readonly refusal: string;
  /** Content that is more than text, such as pictures: its parts as the worker gave them. */
  readonly parts?: readonly unknown[];
}

/** Reads a delta or a message. Content may come in parts, and reasoning under any name that servers use for it. */
export function saidIn(message: UnknownRecord): Said {
  const parts = Array.isArray(message.content) ? (message.content as readonly unknown[]) : undefined;
  const refusal = typeof message.refusal === 'string' ? message.refusal : '';
  const own = reasoningIn(message);
  if (parts === undefined) return { content: plainText(message.content), reasoning: own, refusal };
  const thoughts = parts.filter((part) => isRecord(part) && THOUGHTS.has(part.type));
  const others = parts.filter((part) => !thoughts.includes(part));
  return {
    content: others.map((part) => partText(part)).join(''),
    reasoning: own || thoughts.map((part) => partText(part)).join(''),
    refusal,
    ...(others.some(isMedia) ? { parts: others } : {}),
  };
}

const MEDIA: ReadonlySet<unknown> = new Set([
  'image_url',
  'image',
  'input_audio',
  'audio_url',
  'audio',
  'video_url',
  'video',
]);

function isMedia(part: unknown): boolean {
  return isRecord(part) && MEDIA.has(part.type);
}

const THOUGHTS: ReadonlySet<unknown> = new Set(['thinking', 'reasoning', 'reasoning_text', 'redacted_thinking']);

/** Fields for reasoning. The first with text counts, because servers that use several write the same text in each. */
const REASONING_KEYS = ['reasoning_content', 'reasoning', 'thinking', 'reasoning_details', 'thinking_blocks'] as const;

function reasoningIn(message: UnknownRecord): string {
  for (const key of REASONING_KEYS) {
    const text = partText(message[key]);
    if (text !== '') return text;
  }
  return '';
}

/** Keys that `saidIn` has read. */
export const SAID_KEYS: ReadonlySet<string> = new Set([
  'content',
  'reasoning_content',
  'reasoning',
  'thinking',
  'refusal',
]);

const TEXT_KEYS = ['text', 'content', 'thinking', 'reasoning', 'summary', 'refusal'] as const;
const DEPTH_MAX = 4;

/** Returns the text of a part of content, or of a list of parts. */
function partText(part: unknown, depth = 0): string {
  if (typeof part === 'string') return part;
  if (depth > DEPTH_MAX) return '';
  if (Array.isArray(part)) return part.map((each) => partText(each, depth + 1)).join('');
  if (!isRecord(part)) return '';
  for (const key of TEXT_KEYS) {
    const text = partText(part[key], depth + 1);
    if (text !== '') return text;
  }
  return '';
}

/** Returns content as text. A value that is not text becomes its JSON, because some servers parse an answer. */
function plainText(content: unknown): string {
  if (typeof content === 'string') return content;
  return content === undefined || content === null || content === false ? '' : JSON.stringify(content);
}

/** Log probabilities of a chat in the published shape; undefined if none can be read. */
export function chatLogprobs(told: unknown): object | undefined {
  if (!isRecord(told)) return undefined;
  const content = Array.isArray(told.content) ? told.content : ofColumns(told);
  const refusal = Array.isArray(told.refusal) ? told.refusal : undefined;
  if (content === undefined && refusal === undefined) return undefined;
  return {
    content: content?.filter(isRecord).map(entry) ?? null,
    refusal: refusal?.filter(isRecord).map(entry) ?? null,
  };
}

function entry({ token, logprob, bytes, top_logprobs: top, ...more }: UnknownRecord): UnknownRecord {
  const alternatives = Array.isArray(top) ? top.filter(isRecord) : [];
  return {
    ...more,
    ...named(token, logprob, bytes),
    top_logprobs: alternatives.map((one) => named(one.token, one.logprob, one.bytes)),
  };
}

function named(token: unknown, logprob: unknown, bytes: unknown): UnknownRecord {
  const isBytes = Array.isArray(bytes) && bytes.every((byte) => Number.isInteger(byte));
  return { token: plainText(token), logprob: numberOf(logprob), bytes: isBytes ? bytes : null };
}

/** Returns a log probability as a number that JSON has, which minus infinity is not. */
function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : -9999;
}

/** Converts the log probabilities of completions, which have a list for each column, to those of a chat. */
function ofColumns({
  tokens,
  token_logprobs: values,
  top_logprobs: tops,
}: UnknownRecord): readonly unknown[] | undefined {
  if (!Array.isArray(tokens) || !Array.isArray(values)) return undefined;
  return tokens.map((token: unknown, at) => {
    const top: unknown = Array.isArray(tops) ? tops[at] : undefined;
    const others = isRecord(top) ? Object.entries(top).map(([text, logprob]) => ({ token: text, logprob })) : [];
    return { token, logprob: values[at] as unknown, top_logprobs: others };
  });
}

/** Log probabilities of completions in the published shape; undefined if none can be read. */
export function completionLogprobs(told: unknown): object | undefined {
  if (!isRecord(told)) return undefined;
  if (Array.isArray(told.content)) return columnsOf(told.content.filter(isRecord));
  if (!Array.isArray(told.tokens)) return undefined;
  const { tokens, token_logprobs: values, top_logprobs: tops, text_offset: offsets } = told;
  return {
    tokens: tokens.map(plainText),
    // The first token of an echoed prompt has no log probability.
    token_logprobs: Array.isArray(values)
      ? values.map((value: unknown) => (value === null ? null : numberOf(value)))
      : [],
    top_logprobs: Array.isArray(tops) ? tops.map((top: unknown) => (isRecord(top) ? numbersIn(top) : {})) : [],
    text_offset: Array.isArray(offsets) ? offsets.filter((offset) => Number.isInteger(offset)) : [],
  };
}

function columnsOf(content: readonly UnknownRecord[]): object {
  const topOf = ({ top_logprobs: top }: UnknownRecord): UnknownRecord =>
    Object.fromEntries(
      (Array.isArray(top) ? top : []).filter(isRecord).map((one) => [plainText(one.token), numberOf(one.logprob)]),
    );
  return {
    tokens: content.map(({ token }) => plainText(token)),
    token_logprobs: content.map(({ logprob }) => numberOf(logprob)),
    top_logprobs: content.map(topOf),
    text_offset: [],
  };
}

function numbersIn(record: UnknownRecord): UnknownRecord {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, numberOf(value)]));
}
