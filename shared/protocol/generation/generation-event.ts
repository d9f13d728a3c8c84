import type { ServeError } from '../../errors/index.ts';
import type { TokenLogprob } from './engine-output.ts';

/** Why a choice ended, as clients read it. `null` in a stream means that the worker gave no reason. */
export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls';

/** Tokens spent on one request, all choices together. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens?: number;
  readonly reasoningTokens?: number;
}

/** Everything that can happen to a request after it was accepted, apart from plain text (`GenerationSink.text`). */
export type GenerationEvent =
  /** Text with something attached: log probabilities, token ids that the client wants to read. */
  | {
      readonly kind: 'delta';
      readonly choice: number;
      readonly text: string;
      readonly tokenIds: readonly number[];
      readonly logprobs?: readonly TokenLogprob[];
    }
  | { readonly kind: 'reasoning'; readonly choice: number; readonly text: string }
  | {
      readonly kind: 'tool-call';
      readonly choice: number;
      readonly index: number;
      readonly id: string;
      readonly name: string;
    }
  | { readonly kind: 'tool-arguments'; readonly choice: number; readonly index: number; readonly text: string }
  /** The choice ended, perhaps inside a last piece of text (empty when there is none), which belongs to the same frame. */
  | {
      readonly kind: 'finish';
      readonly choice: number;
      readonly text: string;
      readonly tokenIds: readonly number[];
      readonly logprobs?: readonly TokenLogprob[];
      readonly reason: FinishReason | null;
      readonly stopReason?: string | number;
    }
  | { readonly kind: 'annotation'; readonly name: string; readonly value: string }
  /** Which worker serves the request; once known, and again after a migration. */
  | {
      readonly kind: 'worker';
      readonly prefillWorkerId: string;
      readonly decodeWorkerId: string;
      /** Data-parallel ranks of the two; absent = unset. */
      readonly prefillDpRank?: number;
      readonly decodeDpRank?: number;
    }
  /** A chunk or object in the dialect's own shape from a worker that took the body untouched, or an `EmbeddingRecord`. */
  | { readonly kind: 'body'; readonly body: unknown }
  | { readonly kind: 'engine-data'; readonly data: Readonly<Record<string, unknown>> };

/**
 * Where the pipeline writes and a dialect encodes. Exactly one of `end` and `fail` is called, last.
 * Calls are synchronous and must not throw; a slow client is signalled by `isBlocked`.
 */
export interface GenerationSink {
  /** The hot path: text of one engine output and the number of tokens it stands for. `text` may be empty. */
  text(choice: number, text: string, tokenCount: number): void;
  event(event: GenerationEvent): void;
  /** `usage` counts what the client is shown; `finished` is false when the worker ended without a finish reason. */
  end(usage: Usage, finished: boolean): void;
  fail(error: ServeError): void;
  /** True while the client reads too slowly; the pipeline then stops granting credit until `onUnblocked` runs. */
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}
