import type { Usage } from '../../../protocol/index.ts';

/** Returns `usage` of chats and completions, with the details that the worker counted. */
export function usageBody(usage: Usage): Readonly<Record<string, unknown>> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    ...(usage.cachedTokens === undefined || usage.hidesCache === true
      ? {}
      : { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } }),
  };
}
