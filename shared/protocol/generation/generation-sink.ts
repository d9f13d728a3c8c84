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
 * Exactly one of `end` and `fail` is called, last. Calls are synchronous and must not throw; a slow client is signalled by
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
