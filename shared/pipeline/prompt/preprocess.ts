import type { ModelCard } from '../../discovery/index.ts';
import { ServeError } from '../../errors/index.ts';
import type {
  EngineInput,
  EngineRequest,
  GenerationRequest,
  SamplingOptions,
  StopConditions,
} from '../../protocol/index.ts';
import { clientAnnotations } from '../../scheduler/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import { forEngine } from './engine-chat.ts';
import { isRenderedByWorker, MediaPrompt } from './media-prompt.ts';
import { sampledAs, tokensAsked } from './model-defaults.ts';
import { tokenizeReadable } from './old-media.ts';
import { mediaParts, type PromptTokens, type PromptTools, promptField, tokensLeft } from './prompt-tokens.ts';

/** A request that is ready to send, and facts learned on the way. */
export interface Preprocessed {
  readonly request: EngineRequest;
  /** Number of tokens; 0 if only the worker knows it (prompt embeddings, text models). */
  readonly promptTokens: number;
  /** The rendered prompt, if a template rendered one. */
  readonly formattedPrompt: string | undefined;
  /** The known part of the prompt, for a chat that its worker renders. */
  readonly media?: MediaPrompt | undefined;
}

/**
 * Turns a request into what workers take: renders, tokenizes, checks the length, and fills in stop conditions. `loaded`
 * is undefined for models that take text or tensors, and for chats that only their engine can read.
 * @throws ServeError `invalid_value`, `context_length_exceeded`; as `PromptEncoder.encode` rejects
 */
export async function preprocess(
  request: GenerationRequest,
  model: RoutableModel,
  loaded: LoadedModel | undefined,
  tools: PromptTools,
  signal?: AbortSignal,
): Promise<Preprocessed> {
  if (loaded === undefined) return passThrough(forEngine(request, model), model);
  if (isRenderedByWorker(request, model, loaded)) {
    const media = await MediaPrompt.of(request, model, loaded, tools, tools.media, signal);
    const room = { plainTokens: media.plainTokens, maxTokensDefault: tools.maxTokensDefault };
    return withMedia(passThrough(forEngine(request, model, room), model), media);
  }
  const { primaryName, contextLength } = model;
  const limits = { model: primaryName, contextLength, signal };
  const readable = await tokenizeReadable(request, loaded, tools, limits);
  return withTokens(readable.request, model, loaded, readable.tokens, tools.maxTokensDefault);
}

/** Returns the request with its prompt in tokens. @throws as `preprocess` */
export function withTokens(
  request: GenerationRequest,
  model: RoutableModel,
  loaded: LoadedModel,
  { tokenIds, isWhole, formattedPrompt, promptEmbeds }: PromptTokens,
  maxTokensDefault?: number,
): Preprocessed {
  checkVocabulary(request, tokenIds, loaded);
  const isEmbedding = request.embedding !== undefined;
  const defaults = isEmbedding ? undefined : model.card.runtime_config.sampling_defaults;
  const sampled = defaults ? { ...request, sampling: sampledAs(request.sampling, defaults) } : request;
  const length = { tokens: tokenIds.length, isWhole };
  const tokens = tokensAsked(request.stop, defaults ?? {}, isEmbedding ? undefined : maxTokensDefault);
  const left = tokensLeft(request, length, model.contextLength, tokens);
  const input: EngineInput = { kind: 'tokens', tokenIds, ...(promptEmbeds === undefined ? {} : { promptEmbeds }) };
  const eosTokenIds = loaded.info.eosTokenIds;
  const multiModalData = mediaParts(request.prompt);
  // An embedding has no continuation that could stop.
  const stop = isEmbedding ? request.stop : stopConditions(request.stop, left, eosTokenIds);
  return {
    request: {
      ...engineRequest(sampled, model, input, stop, eosTokenIds),
      ...(multiModalData === undefined ? {} : { multiModalData }),
    },
    promptTokens: tokenIds.length,
    formattedPrompt,
  };
}

/**
 * Returns the length of a prompt, for callers that need nothing else. Rejects with a ServeError, e.g. `invalid_value`.
 */
export async function promptTokens(
  request: GenerationRequest,
  loaded: LoadedModel,
  tools: PromptTools,
): Promise<number> {
  const { tokens } = await tokenizeReadable(request, loaded, tools, { model: request.model, contextLength: 0 });
  return tokens.tokenIds.length;
}

/** Returns the request for a worker that reads prompts itself. */
export function passThrough(request: GenerationRequest, model: RoutableModel): Preprocessed {
  const { prompt } = request;
  const input: EngineInput =
    prompt.kind === 'tensor'
      ? { kind: 'tensor', body: prompt.body }
      : {
          kind: 'text',
          // Every dialect over chat passes on a chat body, which such workers understand.
          endpoint: prompt.kind === 'chat' ? 'chat_completions' : request.endpoint,
          body: { ...request.body, model: model.card.source_path ?? model.card.display_name },
        };
  return {
    request: engineRequest(request, model, input, request.stop, []),
    promptTokens: 0,
    formattedPrompt: undefined,
  };
}

function withMedia(passed: Preprocessed, media: MediaPrompt): Preprocessed {
  const mmRoutingInfo = { wants_tokens: media.asksForTokens };
  return { ...passed, request: { ...passed.request, mmRoutingInfo }, media };
}

function engineRequest(
  request: GenerationRequest,
  model: RoutableModel,
  input: EngineInput,
  stop: StopConditions,
  eosTokenIds: readonly number[],
): EngineRequest {
  const lora = model.card.lora?.name;
  return {
    id: request.id,
    model: model.card.display_name, // the worker's own name for it, not the clients'
    input,
    stop,
    sampling: withoutSingleN(request.sampling),
    output: request.output,
    eosTokenIds,
    routing: lora === undefined ? request.routing : { ...request.routing, lora_name: lora },
    annotations: clientAnnotations(request.annotations),
    mdcSum: model.mdcSum,
    ...(request.routerConfigOverride === undefined ? {} : { routerConfigOverride: request.routerConfigOverride }),
    ...(request.embedding === undefined ? {} : { embedding: request.embedding }),
    ...(request.extraArgs === undefined ? {} : { extraArgs: request.extraArgs }),
    ...(request.mmProcessorKwargs === undefined ? {} : { mmProcessorKwargs: request.mmProcessorKwargs }),
    ...(request.router === undefined ? {} : { router: request.router }),
    ...(request.agentContext === undefined ? {} : { agentContext: request.agentContext }),
    ...(request.requestTimestampMs === undefined ? {} : { requestTimestampMs: request.requestTimestampMs }),
  };
}

function withoutSingleN(sampling: SamplingOptions): SamplingOptions {
  if (sampling.n !== 1) return sampling;
  const { n: _one, ...rest } = sampling;
  return rest;
}

function checkVocabulary(request: GenerationRequest, tokenIds: Uint32Array, loaded: LoadedModel): void {
  if (request.prompt.kind !== 'tokens') return; // this server's encoder only makes known ids
  const size = Math.max(loaded.tokenizer.vocabSize, loaded.info.vocabSize ?? 0);
  const outside = tokenIds.find((id) => id >= size);
  if (outside === undefined) return;
  throw new ServeError(
    'invalid_value',
    `Invalid request: token id ${outside} is outside the vocabulary of ${size} entries`,
    { param: promptField(request) },
  );
}

/** Adds the model's end tokens, which end the output unseen, unless the client asked to ignore them. */
function stopConditions(
  stop: StopConditions,
  maxTokens: number | undefined,
  eosTokenIds: readonly number[],
): StopConditions {
  const filled: StopConditions = maxTokens === undefined ? stop : { ...stop, max_tokens: maxTokens };
  if (stop.ignore_eos === true) {
    const { stop: _strings, stop_token_ids: _ids, stop_token_ids_hidden: _hidden, ...rest } = filled;
    return rest;
  }
  if (eosTokenIds.length === 0) return filled;
  return { ...filled, stop_token_ids_hidden: [...new Set([...(stop.stop_token_ids_hidden ?? []), ...eosTokenIds])] };
}

/** Returns the request with the defaults of the model's card and of this deployment for its prompt. */
export function withCardDefaults(
  request: GenerationRequest,
  card: ModelCard,
  excludesTools: boolean,
): GenerationRequest {
  return withoutUnusableTools(withDefaultThinking(request, card), card, excludesTools);
}

/** Template variables that switch thinking on or off; `reasoning_effort` sets one of them. */
const SWITCHES = ['thinking', 'enable_thinking', 'thinking_mode'] as const;

/**
 * Returns the request with the model's thinking mode (`--dyn-default-thinking-mode`) if the request does not name one.
 */
function withDefaultThinking(request: GenerationRequest, card: ModelCard): GenerationRequest {
  const mode = card.runtime_config.default_thinking_mode;
  const { prompt } = request;
  if (mode === undefined || prompt.kind !== 'chat') return request;
  const args = prompt.templateArgs ?? {};
  if (SWITCHES.some((name) => args[name] != null)) return request;
  const isOn = mode === 'enabled';
  const templateArgs = { ...args, thinking: isOn, enable_thinking: isOn, thinking_mode: mode };
  return { ...request, prompt: { ...prompt, templateArgs } };
}

/**
 * Returns the request without tools that it forbids to call, so that the template does not tempt the model. The tools
 * stay if the deployment or the model's card wants to show them.
 */
function withoutUnusableTools(request: GenerationRequest, card: ModelCard, excludesTools: boolean): GenerationRequest {
  const { prompt } = request;
  if (prompt.kind !== 'chat' || prompt.toolChoice !== 'none' || prompt.tools === undefined) return request;
  if (!excludesTools || card.runtime_config.exclude_tools_when_tool_choice_none === false) return request;
  const { tools: _unusable, ...withoutTools } = prompt;
  return { ...request, prompt: withoutTools };
}
