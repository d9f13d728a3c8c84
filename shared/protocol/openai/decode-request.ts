import { type Endpoint, type GenerationRequest, type PromptInput, tokensThatFit } from '../generation/index.ts';
import type { ChatBody } from './chat-schema.ts';
import type { CompletionsBody } from './completions-schema.ts';
import { agentContextOf, decodeSession } from './decode-agent.ts';
import { type DecodeContext, decodeEnvelope } from './decode-context.ts';
import type { Nvext } from './nvext-schema.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** What the shared part of a request is put together from. */
export interface RequestParts {
  readonly body: ChatBody | CompletionsBody;
  readonly nvext: Nvext;
  readonly context: DecodeContext;
  readonly endpoint: Endpoint;
  readonly prompt: PromptInput;
  /** Of all prompts that are answered together. */
  readonly choices: number;
  readonly options: Pick<GenerationRequest, 'stop' | 'sampling' | 'output' | 'routing'>;
}

const NONE: readonly string[] = Object.freeze([]);

/** The request that chat and completions bodies have in common. @throws ServeError `headers_too_large` */
export function assembleRequest(parts: RequestParts): Mutable<GenerationRequest> {
  const { body, nvext, context, options } = parts;
  const envelope = decodeEnvelope(context);
  const isStream = body.stream === true;
  const request: Mutable<GenerationRequest> = {
    id: envelope.id,
    model: body.model,
    endpoint: parts.endpoint,
    stream: isStream,
    prompt: parts.prompt,
    stop: options.stop,
    sampling: options.sampling,
    output: options.output,
    routing: options.routing,
    annotations: nvext.annotations ?? NONE,
    extraFields: decodeExtraFields(nvext),
    body,
    metadata: envelope.metadata,
    trace: envelope.trace,
  };
  if (!isStream) {
    request.answerTokensMax = tokensThatFit(context.settings.answerBytesMax, parts.choices, options.output.logprobs);
  }
  const lastMessage = parts.prompt.kind === 'chat' ? parts.prompt.messages.at(-1) : undefined;
  const agentContext = agentContextOf(decodeSession(context.headers), nvext.agent_context, lastMessage);
  if (agentContext !== undefined) request.agentContext = agentContext;
  if (nvext.request_timestamp_ms != null) request.requestTimestampMs = nvext.request_timestamp_ms;
  if (nvext.router != null) request.router = routerTargets(nvext.router);
  const extraArgs = decodeExtraArgs(body, nvext);
  if (extraArgs !== undefined) request.extraArgs = extraArgs;
  return request;
}

/** A routing dry run asks for the worker by an annotation of its own. */
function decodeExtraFields(nvext: Nvext): readonly string[] {
  const fields = nvext.extra_fields ?? NONE;
  const isDryRun = nvext.annotations?.some((name) => name.startsWith('query_instance_id')) === true;
  return isDryRun && !fields.includes('worker_id') ? [...fields, 'worker_id'] : fields;
}

function routerTargets(router: NonNullable<Nvext['router']>): NonNullable<GenerationRequest['router']> {
  return {
    ...(router.ttft_target == null ? {} : { ttft_target: router.ttft_target }),
    ...(router.itl_target == null ? {} : { itl_target: router.itl_target }),
  };
}

/** What workers read from `extra_args`: everything of `nvext` that has no field of its own on the request plane. */
function decodeExtraArgs(body: ChatBody | CompletionsBody, nvext: Nvext): Record<string, unknown> | undefined {
  const forWorker: Record<string, unknown> = {};
  if (nvext.extra_fields != null) forWorker.extra_fields = nvext.extra_fields;
  if (nvext.metadata_upload != null) forWorker.metadata_upload = { url: nvext.metadata_upload.url.trim() };
  if (nvext.token_data != null) forWorker.token_in = true;
  if (nvext.agent_hints?.speculative_prefill != null) {
    forWorker.speculative_prefill = nvext.agent_hints.speculative_prefill;
  }
  const mediaIo = (body as ChatBody).media_io_kwargs; // unknown on completions
  const hasNvext = Object.keys(forWorker).length > 0;
  if (!hasNvext && mediaIo == null) return undefined;
  return { ...(hasNvext ? { nvext: forWorker } : {}), ...(mediaIo == null ? {} : { media_io_kwargs: mediaIo }) };
}

/** How usage is reported on a stream. */
export interface UsageReporting {
  /** A usage chunk before `[DONE]`. */
  readonly includesUsage: boolean;
  /** Cumulative usage on every chunk. */
  readonly isContinuous: boolean;
}

export function decodeUsageReporting(body: ChatBody | CompletionsBody, forcesUsage: boolean): UsageReporting {
  const options = body.stream_options;
  const includesUsage = body.stream === true && (forcesUsage || options?.include_usage === true);
  return { includesUsage, isContinuous: includesUsage && options?.continuous_usage_stats === true };
}
