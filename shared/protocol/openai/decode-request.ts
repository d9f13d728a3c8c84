import type { GuidedDecoding, OutputOptions, SamplingOptions, StopConditions } from '../generation/engine-request.ts';
import {
  asksForDryRun,
  type Endpoint,
  type GenerationRequest,
  type PromptInput,
} from '../generation/generation-request.ts';
import { tokensThatFit } from '../generation/generation-sink.ts';
import { agentContextOf, decodeSession } from './agent-session.ts';
import type { CheckedChat, CompletionsBody } from './chat-schema.ts';
import { type DecodeContext, decodeEnvelope, type Mutable } from './decode-context.ts';
import { decodeRouting } from './decode-routing.ts';
import type { Nvext } from './shared-fields.ts';

type Body = CheckedChat | CompletionsBody;

/** Parts from which the shared part of a request is put together. */
export interface RequestParts {
  readonly body: Body;
  readonly nvext: Nvext;
  readonly context: DecodeContext;
  readonly endpoint: Endpoint;
  readonly prompt: PromptInput;
  /** Number of choices of all prompts that are answered together. */
  readonly choices: number;
  /** Token limit, from whichever of its names the route prefers. */
  readonly maxTokens: number | null | undefined;
  readonly guided: GuidedDecoding | undefined;
  /** Alternatives for each token, as the route counts them. */
  readonly logprobs: number | null | undefined;
  readonly promptLogprobs: number | null | undefined;
}

const NONE: readonly string[] = Object.freeze([]);

/**
 * Assembles the request from the parts that chat and completions share. @throws ServeError `invalid_value`,
 * `headers_too_large`
 */
export function assembleRequest(parts: RequestParts): Mutable<GenerationRequest> {
  const { body, nvext, context } = parts;
  const stop = decodeStop(body, nvext, parts.maxTokens);
  const sampling = decodeSampling(body, nvext, parts.guided);
  const output = decodeOutput(body, parts.logprobs, parts.promptLogprobs);
  const routing = decodeRouting(
    nvext,
    body.cache_salt,
    context,
    'prompt_cache_key' in body ? body.prompt_cache_key : undefined,
  );
  const envelope = decodeEnvelope(context);
  const isStream = body.stream === true;
  const request: Mutable<GenerationRequest> = {
    id: envelope.id,
    model: body.model,
    endpoint: parts.endpoint,
    stream: isStream,
    prompt: parts.prompt,
    stop,
    sampling,
    output,
    routing,
    annotations: nvext.annotations ?? NONE,
    extraFields: decodeExtraFields(nvext, context),
    body,
    metadata: envelope.metadata,
    trace: envelope.trace,
  };
  if (context.isolation === 'figures') request.hidesCache = true;
  if (!isStream) {
    request.answerTokensMax = tokensThatFit(context.settings.answerBytesMax, parts.choices, output.logprobs);
  }
  const lastMessage = parts.prompt.kind === 'chat' ? parts.prompt.messages.at(-1) : undefined;
  const agentContext = agentContextOf(decodeSession(context.headers), nvext.agent_context, lastMessage);
  if (agentContext !== undefined) request.agentContext = agentContext;
  if (nvext.request_timestamp_ms != null) request.requestTimestampMs = nvext.request_timestamp_ms;
  if (nvext.agent_hints?.speculative_prefill === true) request.speculatesPrefill = true;
  if (nvext.router != null) request.router = routerTargets(nvext.router);
  const extraArgs = decodeExtraArgs(body, nvext);
  if (extraArgs !== undefined) request.extraArgs = extraArgs;
  return request;
}

/**
 * Assembles the request of a route that generates no text: its body is passed on, or makes up its whole prompt.
 * @throws ServeError `invalid_value`, `headers_too_large`
 */
export function assembleTextless(
  body: { readonly nvext?: { readonly annotations?: readonly string[] | null | undefined } | null | undefined },
  parts: Pick<GenerationRequest, 'model' | 'endpoint' | 'stream' | 'prompt' | 'body'>,
  context: DecodeContext,
): Mutable<GenerationRequest> {
  const { id, metadata, trace } = decodeEnvelope(context);
  const { model, endpoint, stream, prompt, body: forWorker } = parts;
  const request: Mutable<GenerationRequest> = {
    id,
    metadata,
    trace,
    model,
    endpoint,
    stream,
    prompt,
    stop: {},
    sampling: {},
    output: {},
    routing: decodeRouting({}, undefined, context),
    annotations: body.nvext?.annotations ?? NONE,
    extraFields: NONE,
  };
  if (forWorker !== undefined) request.body = forWorker;
  return request;
}

/** Returns the prompt of one item of a batch. */
export function promptOf(item: string | readonly number[]): PromptInput {
  return typeof item === 'string' ? { kind: 'raw', text: item } : { kind: 'tokens', tokenIds: item };
}

/**
 * Extra fields that reveal whether another owner has sent the same prompt: the worker of a request, and data of its
 * engine.
 */
const TELLS_OF_CACHES: ReadonlySet<string> = new Set(['worker_id', 'engine_data']);

/** Returns the extra fields. A routing dry run requests the worker by an annotation of its own. */
function decodeExtraFields(nvext: Nvext, { isolation }: DecodeContext): readonly string[] {
  const fields = nvext.extra_fields ?? NONE;
  if (isolation === 'figures') return fields.filter((field) => !TELLS_OF_CACHES.has(field));
  return asksForDryRun(nvext.annotations) && !fields.includes('worker_id') ? [...fields, 'worker_id'] : fields;
}

function routerTargets(router: NonNullable<Nvext['router']>): NonNullable<GenerationRequest['router']> {
  return {
    ...(router.ttft_target == null ? {} : { ttft_target: router.ttft_target }),
    ...(router.itl_target == null ? {} : { itl_target: router.itl_target }),
  };
}

/** Returns the `extra_args` for workers: everything in `nvext` that has no field of its own on the request plane. */
function decodeExtraArgs(body: Body, nvext: Nvext): Record<string, unknown> | undefined {
  const forWorker: Record<string, unknown> = {};
  if (nvext.extra_fields != null) forWorker.extra_fields = nvext.extra_fields;
  if (nvext.metadata_upload != null) forWorker.metadata_upload = { url: nvext.metadata_upload.url.trim() };
  if (nvext.token_data != null) forWorker.token_in = true;
  if (nvext.agent_hints?.speculative_prefill != null) {
    forWorker.speculative_prefill = nvext.agent_hints.speculative_prefill;
  }
  if (nvext.cache_control != null) forWorker.cache_control = { type: 'ephemeral', ...nvext.cache_control };
  const mediaIo = (body as CheckedChat).media_io_kwargs; // unknown on completions
  const hasNvext = Object.keys(forWorker).length > 0;
  if (!hasNvext && mediaIo == null) return undefined;
  return { ...(hasNvext ? { nvext: forWorker } : {}), ...(mediaIo == null ? {} : { media_io_kwargs: mediaIo }) };
}

/** How a stream reports usage. */
export interface UsageReporting {
  /** Whether a usage chunk precedes `[DONE]`. */
  readonly includesUsage: boolean;
  /** Whether every chunk has cumulative usage. */
  readonly isContinuous: boolean;
}

export function decodeUsageReporting(
  body: Pick<Body, 'stream' | 'stream_options'>,
  forcesUsage: boolean,
): UsageReporting {
  const options = body.stream_options;
  const includesUsage = body.stream === true && (forcesUsage || options?.include_usage === true);
  return { includesUsage, isContinuous: includesUsage && options?.continuous_usage_stats === true };
}

/** Decodes the conditions that end generation. */
function decodeStop(body: Body, nvext: Nvext, maxTokens: number | null | undefined): StopConditions {
  const stop: Mutable<StopConditions> = {};
  if (maxTokens != null) stop.max_tokens = maxTokens;
  if (body.min_tokens != null) stop.min_tokens = body.min_tokens;
  decodeStopStrings(body, stop);
  const ignoresEos = body.ignore_eos ?? nvext.ignore_eos;
  if (ignoresEos != null) stop.ignore_eos = ignoresEos;
  const thinkingTokens = body.thinking_token_budget ?? nvext.max_thinking_tokens;
  // -1 = no bound, as in vLLM
  if (thinkingTokens != null && thinkingTokens >= 0) stop.max_thinking_tokens = thinkingTokens;
  return stop;
}

/** Decodes `stop`, which holds strings or token ids; root `stop_token_ids` counts when `stop` has no ids. */
function decodeStopStrings(body: Body, into: Mutable<StopConditions>): void {
  const { stop } = body;
  let ids = body.stop_token_ids as readonly number[] | null | undefined; // checked by checkSharedBounds
  if (typeof stop === 'string') into.stop = [stop];
  else if (stop != null && typeof stop[0] === 'string') into.stop = stop as readonly string[];
  else if (stop != null) ids = stop as readonly number[];
  if (ids != null && ids.length > 0) into.stop_token_ids = ids;
}

/** Decodes sampling. Greedy sampling, however it was requested, is temperature 0 without `top_p`. */
function decodeSampling(body: Body, nvext: Nvext, guided: GuidedDecoding | undefined): SamplingOptions {
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
  // checkSharedBounds has checked the shapes of both lists.
  if (body.allowed_token_ids != null) into.allowed_token_ids = body.allowed_token_ids as readonly number[];
  if (body.bad_words_token_ids != null) into.bad_words_token_ids = body.bad_words_token_ids as readonly number[][];
  if (body.logit_bias == null) return;
  for (const _token in body.logit_bias) {
    into.logit_bias = body.logit_bias as Readonly<Record<string, number>>;
    return; // an empty map changes nothing
  }
}

/** Decodes the options for the output besides its text. */
function decodeOutput(
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
