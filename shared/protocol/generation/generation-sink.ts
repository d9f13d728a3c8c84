import type { ServeError } from '../../errors/index.ts';
import type { TokenLogprob } from './engine-output.ts';

/** Why a choice ended, as clients read it. `null` in a stream means that the worker gave no reason. */
export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls';

/** Tokens spent on one request, all choices together. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens?: number;
  /** The client is not told of them. @default false */
  readonly hidesCache?: boolean;
  readonly reasoningTokens?: number;
}

/** Text with something attached: log probabilities, token ids that the client wants to read. */
export interface TextDelta {
  readonly choice: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly logprobs?: readonly TokenLogprob[];
}

/** The choice ended, perhaps inside a last piece of text (empty when there is none), which belongs to the same frame. */
export interface TextFinish extends TextDelta {
  readonly reason: FinishReason | null;
  readonly stopReason?: string | number;
}

/** Which worker serves a request. */
export interface ServingWorkers {
  readonly prefillWorkerId: string;
  readonly decodeWorkerId: string;
  /** Data-parallel ranks of the two; absent = unset. */
  readonly prefillDpRank?: number;
  readonly decodeDpRank?: number;
}

/**
 * Where the pipeline writes and a dialect encodes: a method for each thing that can happen to a request after it was accepted.
 * Exactly one of `end`, `routed` and `fail` is called, last. Calls are synchronous and must not throw; a slow client is signalled by
 * `isBlocked`.
 */
export interface GenerationSink {
  /** The hot path: text of one engine output and the number of tokens it stands for. `text` may be empty. */
  text(choice: number, text: string, tokenCount: number): void;
  delta(delta: TextDelta): void;
  reasoning(choice: number, text: string): void;
  /** A tool call begins. @param index its number among the calls of the choice */
  toolCall(choice: number, index: number, id: string, name: string): void;
  toolArguments(choice: number, index: number, text: string): void;
  finish(finish: TextFinish): void;
  /** @param value JSON text */
  annotation(name: string, value: string): void;
  /** Once known, and again after a migration. */
  worker(workers: ServingWorkers): void;
  /** A dry run: the request would go there. In place of `end`. @param tokenIds of its prompt; empty where only workers know them */
  routed(workers: ServingWorkers, tokenIds: readonly number[]): void;
  engineData(data: Readonly<Record<string, unknown>>): void;
  /** A chunk or object in the dialect's own shape from a worker that took the body untouched, or an `EmbeddingRecord`. */
  body(body: unknown): void;
  /** `usage` counts what the client is shown; `finished` is false when the worker ended without a finish reason. */
  end(usage: Usage, finished: boolean): void;
  fail(error: ServeError): void;
  /** True while the client reads too slowly; the pipeline then stops granting credit until `onUnblocked` runs. */
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}

// What an answer takes while it is put together, about: measured on heaps of answers, rounded up.

/** A piece of text beside its characters. */
const PIECE_BYTES = 48;
const CHARACTER_BYTES = 2;
/** A piece of one token. */
const TOKEN_BYTES = PIECE_BYTES + 8 * CHARACTER_BYTES;
/** A named log probability beside the bytes of its token. */
const LOGPROB_BYTES = 192;
const LOGPROB_BYTE_BYTES = 16;
/** One whose token has four bytes. */
const USUAL_LOGPROB_BYTES = LOGPROB_BYTES + 4 * LOGPROB_BYTE_BYTES;
/** A value of a JSON object beside its characters. */
const VALUE_BYTES = 24;

/** Bytes that a piece of an answer takes until the answer is whole. */
export function textMemory(text: string): number {
  return PIECE_BYTES + CHARACTER_BYTES * text.length;
}

/** As `textMemory`, of log probabilities. */
export function logprobsMemory(tokens: readonly TokenLogprob[]): number {
  let bytes = 0;
  for (const token of tokens) {
    bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (token.bytes?.length ?? 0);
    for (const other of token.top) bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (other.bytes?.length ?? 0);
  }
  return bytes;
}

/** As `textMemory`, of a value that came as JSON. Its depth was bounded when it was read. */
export function valueMemory(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + CHARACTER_BYTES * value.length;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  if (ArrayBuffer.isView(value)) return VALUE_BYTES + value.byteLength; // not a value for each of its bytes
  let bytes = VALUE_BYTES;
  if (Array.isArray(value)) for (const element of value) bytes += valueMemory(element);
  else for (const key in value) bytes += VALUE_BYTES + valueMemory((value as Readonly<Record<string, unknown>>)[key]);
  return bytes;
}

/**
 * Tokens of each choice with which a whole answer stays within `bytesMax`.
 * @param alternatives log probabilities beside each token's own; undefined = none at all
 */
export function tokensThatFit(bytesMax: number, choices: number, alternatives: number | undefined): number {
  const logprobs = alternatives === undefined ? 0 : USUAL_LOGPROB_BYTES * (1 + alternatives);
  return Math.max(1, Math.floor(bytesMax / (choices * (TOKEN_BYTES + logprobs))));
}
