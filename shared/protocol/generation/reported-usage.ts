import { asRecord, isRecord, type UnknownRecord } from '../../records/index.ts';
import type { CompletionUsage } from './engine-output.ts';

/**
 * Reads the usage in a body of OpenAI's shape, under any of the names that servers give it; undefined if there is none
 * that can be read. A missing number is 0. Nothing else reads such usage, whatever dialect the client speaks.
 */
export function readUsage({ usage, x_groq: groq, choices }: UnknownRecord): CompletionUsage | undefined {
  const [first] = Array.isArray(choices) ? (choices as readonly unknown[]) : [];
  const reported = [usage, asRecord(groq)?.usage, asRecord(first)?.usage].find(isRecord);
  if (reported === undefined) return undefined;
  const prompt = countOf(reported.prompt_tokens ?? reported.input_tokens);
  const completion = countOf(reported.completion_tokens ?? reported.output_tokens);
  if (prompt === undefined && completion === undefined) return undefined;
  const promptDetails = asRecord(reported.prompt_tokens_details) ?? asRecord(reported.input_tokens_details);
  const details = asRecord(reported.completion_tokens_details) ?? asRecord(reported.output_tokens_details);
  const cached = countOf(promptDetails?.cached_tokens ?? reported.prompt_cache_hit_tokens ?? reported.cached_tokens);
  const reasoning = countOf(details?.reasoning_tokens);
  return {
    prompt_tokens: prompt ?? 0,
    completion_tokens: completion ?? 0,
    total_tokens: (prompt ?? 0) + (completion ?? 0),
    ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
    ...(reasoning === undefined ? {} : { completion_tokens_details: { reasoning_tokens: reasoning } }),
  };
}

/** Reads a number of tokens, which some servers write as text or with a fraction. */
function countOf(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return undefined;
  const count = Math.floor(Number(value));
  return Number.isSafeInteger(count) && count >= 0 ? count : undefined;
}
