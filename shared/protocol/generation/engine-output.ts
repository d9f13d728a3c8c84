import type { ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';

/**
 * Receives the output of an engine on the requester's side: the request plane carries these calls across. Output is
 * pushed, not pulled, so that a token costs no object and no promise.
 *
 * | State | `tokens`, `output` | `end`, `fail` |
 * |---|---|---|
 * | open | delivered in order | closes |
 * | closed, or its call was killed | ignored | ignored |
 */
export interface OutputSink {
  /** Takes plain tokens of one choice: `ids[start .. start + count)`. The array is only valid during the call. */
  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void;
  /** Takes a delta with more than token ids. */
  output(output: EngineOutput): void;
  /** Completes the stream. A stream that stops without this call has failed. */
  end(): void;
  /** Fails the stream; nothing follows. */
  fail(error: ServeError): void;
}

/** Answer of a worker to a request for embeddings: its one `body`. */
export interface EmbeddingRecord {
  /** One vector for each prompt: base64 of little-endian f32. */
  readonly embeddings: readonly string[];
  readonly prompt_tokens?: number;
  readonly total_tokens?: number;
}

/** Reason why a choice ended, in engines' words. `abort` is accepted for `cancelled`. */
export type EngineFinishReason =
  | 'eos'
  | 'stop'
  | 'length'
  | 'cancelled'
  | 'content_filter'
  | { readonly error: string };

export interface TopLogprob {
  readonly rank: number;
  readonly token_id: number;
  readonly token?: string | null;
  readonly logprob: number;
  readonly bytes?: readonly number[] | null;
}

export interface CompletionUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number; readonly audio_tokens?: number } | null;
  readonly completion_tokens_details?: { readonly reasoning_tokens?: number } | null;
}

/** Media of a chat that an engine rendered itself. */
export interface PromptMedia {
  /**
   * Identities of the media by content (`mediaIdentity`), in the order of the chat; empty if a medium has no identity.
   */
  readonly ids: readonly string[];
  /** Prompt in tokens, media included; present if the request asked for it (`mm_routing_info.wants_tokens`). */
  readonly token_ids?: readonly number[];
}

/**
 * One delta from a worker (`LLMEngineOutput`). Plain token ids use `OutputSink.tokens` instead. An output may carry ids
 * together with data that belongs to them (log probabilities, a finish).
 *
 * @example
 * const usage: EngineOutput = { completion_usage: { prompt_tokens: 12, completion_tokens: 3 } };
 */
export interface EngineOutput {
  readonly token_ids?: readonly number[];
  /** Text, if the engine detokenized; then the frontend does not. */
  readonly text?: string | null;
  readonly tokens?: readonly (string | null)[] | null;
  readonly output_type?: 'text' | 'image' | 'video' | 'audio';
  readonly content_parts?: readonly unknown[] | null;
  readonly cum_log_probs?: number | null;
  readonly log_probs?: readonly number[] | null;
  readonly top_logprobs?: readonly (readonly TopLogprob[])[] | null;
  readonly finish_reason?: EngineFinishReason | null;
  readonly stop_reason?: string | number | null;
  readonly index?: number | null;
  readonly disaggregated_params?: unknown;
  readonly encoder_result?: unknown;
  readonly worker_trace_link?: unknown;
  readonly extra_args?: unknown;
  readonly completion_usage?: CompletionUsage | null;
  readonly engine_data?: Readonly<Record<string, unknown>> | null;
  /** Sent once, with the first output; only frontends read it. */
  readonly prompt_media?: PromptMedia | null;
  /**
   * A whole OpenAI-shaped chunk or object, for models that take text or other bodies untouched; or an
   * `EmbeddingRecord`.
   */
  readonly body?: unknown;
}

/** Token as clients read it in log probabilities. */
export interface NamedLogprob {
  readonly tokenId: number;
  /** Text of the token, U+FFFD for a part of a character, empty for a skipped special token, or `token_id:<id>`. */
  readonly token: string;
  /** UTF-8 bytes of the token; null if `token` is empty. */
  readonly bytes: readonly number[] | null;
  readonly logprob: number;
}

/** Sampled token with its log probability and the requested alternatives. */
export interface TokenLogprob extends NamedLogprob {
  readonly top: readonly NamedLogprob[];
}

/** Returns the vectors of a worker's `body`; undefined when it is not an `EmbeddingRecord`. */
export function readEmbeddings(body: unknown): readonly string[] | undefined {
  if (typeof body !== 'object' || body === null || !('embeddings' in body)) return undefined;
  const { embeddings } = body;
  return Array.isArray(embeddings) && embeddings.every((vector) => typeof vector === 'string') ? embeddings : undefined;
}

type Check = (value: unknown) => boolean;

const U32_MAX = 0xffff_ffff;
/**
 * Length limit of one output's text in UTF-16 units. It is searched at once for stops, calls and reasoning. Workers
 * split longer texts.
 */
const TEXT_LENGTH_MAX = 32_768;
/** Limit of one output's tokens, which are detokenized or named at once. Workers split longer lists. */
export const OUTPUT_TOKENS_MAX = 4096;
/** Limit of the alternatives of one token. */
const ALTERNATIVES_MAX = 128;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number' && !Number.isNaN(value); // -Infinity is a log probability
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTokenId: Check = (value) => isCount(value) && (value as number) <= U32_MAX;
const isByte: Check = (value) => isCount(value) && (value as number) <= 0xff;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check, lengthMax = Number.POSITIVE_INFINITY): Check =>
  (value) =>
    Array.isArray(value) && value.length <= lengthMax && value.every(check);

const isBytes = listOf(isByte);

const isTopLogprob: Check = (value) =>
  isRecord(value) &&
  isCount(value.rank) &&
  isTokenId(value.token_id) &&
  isNumber(value.logprob) &&
  (value.token == null || isText(value.token)) &&
  (value.bytes == null || isBytes(value.bytes));

const isUsage: Check = (value) =>
  isRecord(value) &&
  isCount(value.prompt_tokens) &&
  isCount(value.completion_tokens) &&
  (value.total_tokens == null || isCount(value.total_tokens)) &&
  (value.prompt_tokens_details == null || isDetails(value.prompt_tokens_details)) &&
  (value.completion_tokens_details == null || isDetails(value.completion_tokens_details));

const isDetails: Check = (value) => isRecord(value) && Object.values(value).every(orNull(isCount));

/** Limits of a prompt's media, above those of any engine. */
const MEDIA_MAX = 1024;
const PROMPT_TOKENS_MAX = 1 << 24;

const isPromptMedia: Check = (value) =>
  isRecord(value) &&
  listOf(isText, MEDIA_MAX)(value.ids) &&
  (value.token_ids == null || listOf(isTokenId, PROMPT_TOKENS_MAX)(value.token_ids));

/** Fields that this process reads, each with its allowed content if it is present and not null. */
const FIELDS: readonly (readonly [name: keyof EngineOutput, check: Check, allowed: string])[] = [
  ['token_ids', listOf(isTokenId, OUTPUT_TOKENS_MAX), `a list of at most ${OUTPUT_TOKENS_MAX} token ids`],
  [
    'text',
    (value) => isText(value) && (value as string).length <= TEXT_LENGTH_MAX,
    `at most ${TEXT_LENGTH_MAX} letters`,
  ],
  ['tokens', listOf(orNull(isText), OUTPUT_TOKENS_MAX), `a list of at most ${OUTPUT_TOKENS_MAX} texts`],
  ['content_parts', Array.isArray, 'a list'],
  ['cum_log_probs', isNumber, 'a number'],
  ['log_probs', listOf(isNumber, OUTPUT_TOKENS_MAX), `a list of at most ${OUTPUT_TOKENS_MAX} numbers`],
  ['top_logprobs', listOf(listOf(isTopLogprob, ALTERNATIVES_MAX), OUTPUT_TOKENS_MAX), 'lists of alternatives'],
  ['finish_reason', (value) => isText(value) || (isRecord(value) && isText(value.error)), 'a reason'],
  ['stop_reason', (value) => isText(value) || isTokenId(value), 'a text or a token id'],
  ['index', isTokenId, 'the index of a choice'],
  ['completion_usage', isUsage, 'counts of tokens'],
  ['engine_data', isRecord, 'an object'],
  ['prompt_media', isPromptMedia, 'identities of media'],
];

/**
 * Checks one output as received from a wire before its values are used, because a worker may be another program, of
 * another release, or hostile. Unknown fields are kept. Costs a check of each value in its lists.
 *
 * @returns the output, or a description of the fault for operators' logs
 */
export function readEngineOutput(data: unknown): EngineOutput | string {
  if (!isRecord(data)) return 'an output that is not an object';
  for (const [name, check, allowed] of FIELDS) {
    const value = data[name];
    if (value === undefined || value === null || check(value)) continue;
    return `an output whose ${name} is not ${allowed}`;
  }
  // Only `token_ids` has no null in its type, and engines send one.
  return data.token_ids === null ? { ...data, token_ids: [] } : data;
}

/** Fields with an entry for each token of an output. */
const BY_TOKEN = ['token_ids', 'tokens', 'log_probs', 'top_logprobs'] as const;

/**
 * Splits an output with too much text or too many tokens into several outputs with a share of both each; the last one
 * has everything else. Characters stay whole.
 */
export function cutLongOutput(output: EngineOutput): readonly EngineOutput[] {
  const { text, index } = output;
  const tokens = Math.max(...BY_TOKEN.map((name) => output[name]?.length ?? 0));
  // One less, because a cut may move half of a character to the next piece.
  const count = Math.max(
    1,
    Math.ceil((text?.length ?? 0) / (TEXT_LENGTH_MAX - 1)),
    Math.ceil(tokens / OUTPUT_TOKENS_MAX),
  );
  if (count === 1) return [output];
  const place = index === undefined ? {} : { index };
  return Array.from({ length: count }, (_, at) => {
    const share = {
      ...tokensBetween(output, at, count),
      ...(text == null ? {} : { text: textBetween(text, at, count) }),
    };
    return at === count - 1 ? { ...output, ...share } : { ...place, ...share };
  });
}

/** Returns the entries of the piece `at` of `count`, from every list with one entry for each token. */
function tokensBetween(output: EngineOutput, at: number, count: number): EngineOutput {
  const parts = BY_TOKEN.flatMap((name) => {
    const list = output[name];
    if (list == null) return [];
    return [[name, list.slice(Math.floor((at * list.length) / count), Math.floor(((at + 1) * list.length) / count))]];
  });
  return Object.fromEntries(parts);
}

function textBetween(text: string, at: number, count: number): string {
  const cut = (share: number): number => {
    const end = Math.floor((share * text.length) / count);
    return isHighSurrogate(text.charCodeAt(end - 1)) && share < count ? end - 1 : end;
  };
  return text.slice(cut(at), cut(at + 1));
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
