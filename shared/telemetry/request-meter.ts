/** How a request ended, for the counters. */
export type RequestOutcome =
  | { readonly status: 'success' }
  /** `errorType` is the label of the request counter: validation, not_found, overload, cancelled, ... */
  | { readonly status: 'error'; readonly errorType: string };

/** A rank of a worker, as metrics name it. */
export interface WorkerLabels {
  /** Hex. */
  readonly workerId: string;
  /** Absent = `none`. */
  readonly dpRank?: number | undefined;
  readonly workerType: 'prefill' | 'decode';
}

/**
 * Counts one request from the handler's entry to the end of its body. Per-token work is plain numbers in the meter; it is
 * folded into the registry when the request ends or the registry is scraped.
 */
export interface RequestMeter {
  /** The prompt was tokenized. */
  promptTokens(count: number): void;
  /** The worker reported how much of the prompt it had cached. */
  cachedTokens(count: number): void;
  /** Who computes its prompt and who goes on from there, mostly the same one; again after a migration. */
  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void;
  /** It goes on at another worker. */
  moved(): void;
  /** One engine output with `count` tokens arrived: the first sets TTFT, later ones count inter-token latency per token. */
  outputTokens(count: number): void;
  /** A piece of text arrived whose tokens its worker counts: for TTFT and inter-token latency it is one token. */
  piece(): void;
  /** The worker says how many tokens the pieces so far hold; as long as it does not, each counts as one. Adds up over prompts. */
  piecesHold(tokens: number): void;
  /** Milliseconds since the handler's entry to the first token, once there was one. */
  readonly ttftMs: number | undefined;
  /** Who answers it, or did last; undefined before it went to anybody. */
  readonly workerId: string | undefined;
  /** How often it went on at another worker. */
  readonly moves: number;
  /** Closes the books; later calls do nothing. */
  end(outcome: RequestOutcome): void;
}
