import type { ServeError } from '../../errors/index.ts';
import type { TokenLogprob } from './engine-output.ts';

/** Reason why a choice ended, as clients read it. `null` in a stream means that the worker gave no reason. */
export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls';

/** Tokens spent on one request, all choices together. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens?: number;
  /** Whether the client must not see `cachedTokens`. @default false */
  readonly hidesCache?: boolean;
  readonly reasoningTokens?: number;
}

/** Text with data attached: log probabilities, token ids that the client wants. */
export interface TextDelta {
  readonly choice: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly logprobs?: readonly TokenLogprob[];
}

/** End of a choice, perhaps with a last piece of text (otherwise empty), which belongs to the same frame. */
export interface TextFinish extends TextDelta {
  readonly reason: FinishReason | null;
  readonly stopReason?: string | number;
}

/** Workers that serve a request. */
export interface ServingWorkers {
  readonly prefillWorkerId: string;
  readonly decodeWorkerId: string;
  /** Data-parallel ranks of the two workers; absent = unset. */
  readonly prefillDpRank?: number;
  readonly decodeDpRank?: number;
}

/**
 * Receives the events of an accepted request from the pipeline and encodes them in a dialect, one method for each kind
 * of event. The last call is exactly one of `end`, `routed` and `fail`. Calls are synchronous and must not throw;
 * `isBlocked` signals a slow client.
 */
export interface GenerationSink {
  /** Takes the text of one engine output and its number of tokens; this is the hot path. `text` may be empty. */
  text(choice: number, text: string, tokenCount: number): void;
  delta(delta: TextDelta): void;
  reasoning(choice: number, text: string): void;
  /** Begins a tool call. @param index its number among the calls of the choice */
  toolCall(choice: number, index: number, id: string, name: string): void;
  toolArguments(choice: number, index: number, text: string): void;
  finish(finish: TextFinish): void;
  /** @param value JSON text */
  annotation(name: string, value: string): void;
  /** Takes the workers once they are known, and again after a migration. */
  worker(workers: ServingWorkers): void;
  /**
   * Ends a dry run instead of `end`: the request would go to these workers. @param tokenIds ids of its prompt; empty if
   * only workers know them
   */
  routed(workers: ServingWorkers, tokenIds: readonly number[]): void;
  engineData(data: Readonly<Record<string, unknown>>): void;
  /**
   * Takes a chunk or object in the dialect's own shape from a worker that took the body untouched, or an
   * `EmbeddingRecord`.
   */
  body(body: unknown): void;
  /**
   * Ends the response. `usage` counts what the client sees; `finished` is false when the worker ended without a finish
   * reason.
   */
  end(usage: Usage, finished: boolean): void;
  fail(error: ServeError): void;
  /**
   * Returns true while the client reads too slowly; the pipeline then stops granting credit until `onUnblocked` runs.
   */
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}

// Estimated memory of an answer while it is put together: measured on heaps of answers, rounded up.

/** Bytes of a piece of text besides its characters. */
const PIECE_BYTES = 48;
const CHARACTER_BYTES = 2;
/** Bytes of a piece of one token. */
const TOKEN_BYTES = PIECE_BYTES + 8 * CHARACTER_BYTES;
/** Bytes of a named log probability besides the bytes of its token. */
const LOGPROB_BYTES = 192;
const LOGPROB_BYTE_BYTES = 16;
/** Bytes of a log probability whose token has four bytes. */
const USUAL_LOGPROB_BYTES = LOGPROB_BYTES + 4 * LOGPROB_BYTE_BYTES;
/** Bytes of a value in a JSON object besides its characters. */
const VALUE_BYTES = 24;

/** Returns the bytes that a piece of an answer takes until the answer is whole. */
export function textMemory(text: string): number {
  return PIECE_BYTES + CHARACTER_BYTES * text.length;
}

/** Returns the bytes of log probabilities, as `textMemory` does for text. */
export function logprobsMemory(tokens: readonly TokenLogprob[]): number {
  let bytes = 0;
  for (const token of tokens) {
    bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (token.bytes?.length ?? 0);
    for (const other of token.top) bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (other.bytes?.length ?? 0);
  }
  return bytes;
}

/** Returns the bytes of a value that came as JSON. Its depth was bounded when it was read. */
export function valueMemory(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + CHARACTER_BYTES * value.length;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  if (ArrayBuffer.isView(value)) return VALUE_BYTES + value.byteLength; // one value, instead of one for each byte
  let bytes = VALUE_BYTES;
  if (Array.isArray(value)) for (const element of value) bytes += valueMemory(element);
  else for (const key in value) bytes += VALUE_BYTES + valueMemory((value as Readonly<Record<string, unknown>>)[key]);
  return bytes;
}

/**
 * Returns how many tokens each choice may have for a whole answer to stay within `bytesMax`.
 * @param alternatives log probabilities besides each token's own; undefined = none at all
 */
export function tokensThatFit(bytesMax: number, choices: number, alternatives: number | undefined): number {
  const logprobs = alternatives === undefined ? 0 : USUAL_LOGPROB_BYTES * (1 + alternatives);
  return Math.max(1, Math.floor(bytesMax / (choices * (TOKEN_BYTES + logprobs))));
}
