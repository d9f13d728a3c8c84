import type { ServeError } from '../../errors/index.ts';

/**
 * Where an engine writes what it makes and where a requester reads it: the request plane carries these calls from one
 * side to the other. Pushed, not pulled, so that a token costs no object and no promise.
 *
 * | State | `tokens`, `output` | `end`, `fail` |
 * |---|---|---|
 * | open | delivered in order | closes |
 * | closed, or its call was killed | ignored | ignored |
 */
export interface OutputSink {
  /** Plain tokens of one choice: `ids[start .. start + count)`. The array is only valid during the call. */
  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void;
  /** A delta with more than token ids. */
  output(output: EngineOutput): void;
  /** The stream is complete. A stream that stops without it has failed. */
  end(): void;
  /** The stream has failed; nothing follows. */
  fail(error: ServeError): void;
}

/** What a worker answers when an embedding is asked for: its one `body`. */
export interface EmbeddingRecord {
  /** One a prompt: base64 of little-endian f32. */
  readonly embeddings: readonly string[];
  readonly prompt_tokens?: number;
  readonly total_tokens?: number;
}

/** Why a choice ended, as engines say it. `abort` is accepted for `cancelled`. */
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
}

/**
 * One delta from a worker (`LLMEngineOutput`). Plain token ids do not come this way: they are
 * `OutputSink.tokens`. An output may carry ids too, when something else belongs to them (log probabilities, a finish).
 */
export interface EngineOutput {
  readonly token_ids?: readonly number[];
  /** Set when the engine detokenized; then the frontend does not. */
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
  /** A whole OpenAI-shaped chunk or object, for models that take text or other bodies untouched; or an `EmbeddingRecord`. */
  readonly body?: unknown;
}

/** A token as clients read it in log probabilities. */
export interface NamedLogprob {
  readonly tokenId: number;
  /** Text of the token, U+FFFD for a part of a character, empty for a skipped special token, or `token_id:<id>`. */
  readonly token: string;
  /** The token's true UTF-8 bytes; null where `token` is empty. */
  readonly bytes: readonly number[] | null;
  readonly logprob: number;
}

/** A sampled token with its log probability and the alternatives asked for. */
export interface TokenLogprob extends NamedLogprob {
  readonly top: readonly NamedLogprob[];
}

/** The vectors of a worker's `body`; undefined when it is no `EmbeddingRecord`. */
export function readEmbeddings(body: unknown): readonly string[] | undefined {
  if (typeof body !== 'object' || body === null || !('embeddings' in body)) return undefined;
  const { embeddings } = body;
  return Array.isArray(embeddings) && embeddings.every((vector) => typeof vector === 'string') ? embeddings : undefined;
}
