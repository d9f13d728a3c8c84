import type { GuidedDecoding, OutputOptions, SamplingOptions, StopConditions } from '../generation/index.ts';
import type { ChatBody } from './chat-schema.ts';
import type { CompletionsBody } from './completions-schema.ts';
import type { Nvext } from './nvext-schema.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Body = ChatBody | CompletionsBody;

/** When generation ends. `maxTokens` is the route's own choice among the names for it. */
export function decodeStop(body: Body, nvext: Nvext, maxTokens: number | null | undefined): StopConditions {
  const stop: Mutable<StopConditions> = {};
  if (maxTokens != null) stop.max_tokens = maxTokens;
  if (body.min_tokens != null) stop.min_tokens = body.min_tokens;
  decodeStopStrings(body, stop);
  const ignoresEos = body.ignore_eos ?? nvext.ignore_eos;
  if (ignoresEos != null) stop.ignore_eos = ignoresEos;
  const thinkingTokens = body.thinking_token_budget ?? nvext.max_thinking_tokens;
  if (thinkingTokens != null) stop.max_thinking_tokens = thinkingTokens;
  return stop;
}

/** `stop` holds strings or token ids; root `stop_token_ids` counts when `stop` has no ids. */
function decodeStopStrings(body: Body, into: Mutable<StopConditions>): void {
  const { stop } = body;
  let ids = body.stop_token_ids as readonly number[] | null | undefined; // checked by checkSharedBounds
  if (typeof stop === 'string') into.stop = [stop];
  else if (stop != null && typeof stop[0] === 'string') into.stop = stop as readonly string[];
  else if (stop != null) ids = stop as readonly number[];
  if (ids != null && ids.length > 0) into.stop_token_ids = ids;
}

/** How tokens are drawn. Greedy, however it was asked for, is temperature 0 without `top_p`. */
export function decodeSampling(body: Body, nvext: Nvext, guided: GuidedDecoding | undefined): SamplingOptions {
  const sampling: Mutable<SamplingOptions> = {};
  if (body.n != null) sampling.n = body.n;
  if (nvext.greed_sampling === true || body.top_p === 0) {
    sampling.temperature = 0;
  } else {
    if (body.temperature != null) sampling.temperature = body.temperature;
    if (body.top_p != null) sampling.top_p = body.top_p;
  }
  if (body.frequency_penalty != null) sampling.frequency_penalty = body.frequency_penalty;
  if (body.presence_penalty != null) sampling.presence_penalty = body.presence_penalty;
  const repetition = body.repetition_penalty ?? nvext.repetition_penalty;
  if (repetition != null) sampling.repetition_penalty = repetition;
  const topK = body.top_k ?? nvext.top_k;
  if (topK != null) sampling.top_k = topK === 0 ? -1 : topK;
  if (body.min_p != null) sampling.min_p = body.min_p;
  if (body.seed != null) sampling.seed = body.seed;
  if (body.include_stop_str_in_output != null) sampling.include_stop_str_in_output = body.include_stop_str_in_output;
  if (guided !== undefined) sampling.guided_decoding = guided;
  decodeTokenLists(body, sampling);
  return sampling;
}

function decodeTokenLists(body: Body, into: Mutable<SamplingOptions>): void {
  if (body.detokenize != null) into.detokenize = body.detokenize;
  // The shapes of both lists were checked by checkSharedBounds.
  if (body.allowed_token_ids != null) into.allowed_token_ids = body.allowed_token_ids as readonly number[];
  if (body.bad_words_token_ids != null) into.bad_words_token_ids = body.bad_words_token_ids as readonly number[][];
  if (body.logit_bias == null) return;
  for (const _token in body.logit_bias) {
    into.logit_bias = body.logit_bias as Readonly<Record<string, number>>;
    return; // an empty map asks for nothing
  }
}

/** What comes back beside the text. `logprobs` is the number of alternatives, as the route counts it. */
export function decodeOutput(
  body: Body,
  logprobs: number | null | undefined,
  promptLogprobs: number | null | undefined,
): OutputOptions {
  const output: Mutable<OutputOptions> = {};
  if (logprobs != null) output.logprobs = logprobs;
  if (promptLogprobs != null) output.prompt_logprobs = promptLogprobs;
  if (body.skip_special_tokens != null) output.skip_special_tokens = body.skip_special_tokens;
  if (body.return_tokens_as_token_ids != null) output.return_tokens_as_token_ids = body.return_tokens_as_token_ids;
  return output;
}
