import type { Usage } from '../../../protocol/generation/index.ts';
import { isRecord } from '../../../records/index.ts';

/** `usage` of chat and completions answers; details only where somebody counted them. */
export function usageBody(usage: Usage): Readonly<Record<string, unknown>> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    ...(usage.cachedTokens === undefined ? {} : { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } }),
  };
}

/** Two prompts' usage as one. */
export function addUsage(a: Usage, b: Usage): Usage {
  const cachedTokens = addOptional(a.cachedTokens, b.cachedTokens);
  const reasoningTokens = addOptional(a.reasoningTokens, b.reasoningTokens);
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}

function addOptional(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : a + (b ?? 0);
}

/**
 * A worker's own chunk as a client sees it that did not ask for usage: without it, and undefined where the chunk says
 * nothing else. Workers are always asked, since metrics and other dialects count by it.
 */
export function withoutUsage(body: unknown): unknown {
  if (!isRecord(body) || !('usage' in body)) return body;
  const { usage, ...rest } = body;
  const isOnlyUsage = isRecord(usage) && Array.isArray(body.choices) && body.choices.length === 0;
  return isOnlyUsage ? undefined : rest;
}

/** Whether a worker's own chunk tells what the answer has used. */
export function hasUsage(body: unknown): boolean {
  return isRecord(body) && isRecord(body.usage);
}

/** Counts the ends of the requests of a batch, and adds up what they used. */
export class BatchUsage {
  #left: number;
  #sum: Usage | undefined;

  /** @param requests in the batch */
  constructor(requests: number) {
    this.#left = requests;
  }

  /** One request has ended; gives the usage of all when it was the last. */
  ended(usage: Usage): Usage | undefined {
    this.#sum = this.#sum === undefined ? usage : addUsage(this.#sum, usage);
    return --this.#left > 0 ? undefined : this.#sum;
  }
}
