import type { ResponsesBody } from './body-schema.ts';
import type { DecodedTools } from './decode-tools.ts';

/** Alternatives a token that can be asked for. */
const TOP_LOGPROBS_MAX = 20;

/** Alternatives asked for a token; undefined when no log probabilities are wanted, however many were named. */
export function wantedLogprobs(body: ResponsesBody): number | undefined {
  if (body.include?.includes('message.output_text.logprobs') !== true) return undefined;
  return Math.min(body.top_logprobs ?? 0, TOP_LOGPROBS_MAX);
}

/** What a response object says of its request, with the published defaults. */
export type ResponseEcho = ReturnType<typeof echoOf>;

/** @param isStored whether this answer will be found again: the truth, not what was asked */
export function echoOf(body: ResponsesBody, tools: DecodedTools, isStored: boolean) {
  return {
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: body.prompt_cache_retention ?? null,
    reasoning: body.reasoning ?? null,
    safety_identifier: body.safety_identifier ?? null,
    service_tier: body.service_tier ?? 'auto',
    temperature: body.temperature ?? 1,
    text: { ...body.text, format: body.text?.format ?? { type: 'text' } },
    tool_choice: tools.echoChoice,
    tools: tools.echo,
    top_logprobs: wantedLogprobs(body) ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? 'disabled',
    store: isStored,
  };
}
