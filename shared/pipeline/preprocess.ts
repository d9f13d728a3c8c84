import type { Clock } from '../clock/index.ts';
import { ServeError } from '../errors/index.ts';
import type {
  ChatMessage,
  EngineInput,
  EngineRequest,
  GenerationRequest,
  SamplingOptions,
  StopConditions,
} from '../protocol/generation/index.ts';
import type { LoadedModel } from '../tokens/index.ts';
import type { RoutableModel } from './model-directory.ts';

/** A request ready to be sent, and what was learned on the way. */
export interface Preprocessed {
  readonly request: EngineRequest;
  /** 0 where only the worker knows (prompt embeddings, text models). */
  readonly promptTokens: number;
  /** The rendered prompt, where there was one to render. */
  readonly formattedPrompt: string | undefined;
}

export interface PreprocessTimes {
  template(ms: number): void;
  tokenize(ms: number): void;
}

const NO_TOKENS = new Uint32Array(0);

/**
 * Turns a request into what workers take: render, tokenize, check the length, fill in stop conditions (http-api.md,
 * section 13). `loaded` is undefined exactly for models that take text or tensors.
 * @throws ServeError `invalid_value`, `context_length_exceeded`
 */
export function preprocess(
  request: GenerationRequest,
  model: RoutableModel,
  loaded: LoadedModel | undefined,
  clock: Clock,
  times: PreprocessTimes,
): Preprocessed {
  if (loaded === undefined) return passThrough(request, model);
  const { tokenIds, formattedPrompt, promptEmbeds } = tokenize(request, loaded, clock, times);
  checkVocabulary(request, tokenIds, loaded);
  const left = tokensLeft(request, tokenIds.length, model.contextLength);
  const input: EngineInput = { kind: 'tokens', tokenIds, ...(promptEmbeds === undefined ? {} : { promptEmbeds }) };
  const eosTokenIds = loaded.info.eosTokenIds;
  // An embedding has no continuation that could stop.
  const stop = request.embedding === undefined ? stopConditions(request.stop, left, eosTokenIds) : request.stop;
  return {
    request: engineRequest(request, model, input, stop, eosTokenIds),
    promptTokens: tokenIds.length,
    formattedPrompt,
  };
}

/** Length of the prompt, for those who only want to know. @throws ServeError `invalid_value` */
export function promptTokens(
  request: GenerationRequest,
  loaded: LoadedModel,
  clock: Clock,
  times: PreprocessTimes,
): number {
  return tokenize(request, loaded, clock, times).tokenIds.length;
}

function passThrough(request: GenerationRequest, model: RoutableModel): Preprocessed {
  const { prompt } = request;
  const input: EngineInput =
    prompt.kind === 'tensor'
      ? { kind: 'tensor', body: prompt.body }
      : {
          kind: 'text',
          // Every dialect over chat hands on a chat body, which is what such workers understand.
          endpoint: prompt.kind === 'chat' ? 'chat_completions' : request.endpoint,
          body: { ...request.body, model: model.card.source_path ?? model.primaryName },
        };
  return {
    request: engineRequest(request, model, input, request.stop, []),
    promptTokens: 0,
    formattedPrompt: undefined,
  };
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
    model: model.primaryName,
    input,
    stop,
    sampling: withoutSingleN(request.sampling),
    output: request.output,
    eosTokenIds,
    routing: lora === undefined ? request.routing : { ...request.routing, lora_name: lora },
    annotations: request.annotations,
    mdcSum: model.mdcSum,
    ...(request.routerConfigOverride === undefined ? {} : { routerConfigOverride: request.routerConfigOverride }),
    ...(request.embedding === undefined ? {} : { embedding: request.embedding }),
    ...(request.extraArgs === undefined ? {} : { extraArgs: request.extraArgs }),
    ...(request.agentContext === undefined ? {} : { agentContext: request.agentContext }),
    ...(request.requestTimestampMs === undefined ? {} : { requestTimestampMs: request.requestTimestampMs }),
  };
}

function withoutSingleN(sampling: SamplingOptions): SamplingOptions {
  if (sampling.n !== 1) return sampling;
  const { n: _one, ...rest } = sampling;
  return rest;
}

interface Tokenized {
  readonly tokenIds: Uint32Array;
  readonly formattedPrompt: string | undefined;
  readonly promptEmbeds: string | undefined;
}

function tokenize(request: GenerationRequest, loaded: LoadedModel, clock: Clock, times: PreprocessTimes): Tokenized {
  const { prompt } = request;
  switch (prompt.kind) {
    case 'tokens':
      return { tokenIds: Uint32Array.from(prompt.tokenIds), formattedPrompt: undefined, promptEmbeds: undefined };
    case 'embeds':
      return { tokenIds: NO_TOKENS, formattedPrompt: undefined, promptEmbeds: prompt.data };
    case 'raw':
      return {
        tokenIds: encode(prompt.text, loaded, clock, times, request.embedding !== undefined),
        formattedPrompt: prompt.text,
        promptEmbeds: undefined,
      };
    case 'chat': {
      const text = render(request, loaded, clock, times);
      return { tokenIds: encode(text, loaded, clock, times), formattedPrompt: text, promptEmbeds: undefined };
    }
    case 'body':
    case 'tensor':
      throw new ServeError('not_implemented', `model \`${request.model}\` takes text prompts only`);
  }
}

/**
 * Special tokens are not added to what is continued: a chat template writes its own, a raw prompt is the client's
 * (parsers.md, section 0). Embedding models are trained on texts with them: some read the vector off the last one.
 */
function encode(
  text: string,
  loaded: LoadedModel,
  clock: Clock,
  times: PreprocessTimes,
  addSpecialTokens = false,
): Uint32Array {
  const startMs = clock.nowMs();
  const clean = text.includes('\0') ? text.replaceAll('\0', '') : text;
  const tokenIds = loaded.tokenizer.encode(clean, { addSpecialTokens });
  times.tokenize(clock.nowMs() - startMs);
  return tokenIds;
}

function render(request: GenerationRequest, loaded: LoadedModel, clock: Clock, times: PreprocessTimes): string {
  const { prompt } = request;
  if (prompt.kind !== 'chat') throw new TypeError('only chats are rendered');
  if (loaded.chatTemplate === undefined) {
    throw new ServeError('invalid_value', `model \`${request.model}\` has no chat template: use /v1/completions`, {
      param: 'messages',
    });
  }
  const startMs = clock.nowMs();
  const text = loaded.chatTemplate.render({
    messages: prompt.messages as readonly (ChatMessage & Record<string, unknown>)[],
    tools: prompt.toolChoice === 'none' ? undefined : (prompt.tools as readonly Record<string, unknown>[] | undefined),
    addGenerationPrompt: prompt.addGenerationPrompt,
    continueFinalMessage: prompt.continueFinalMessage,
    args: prompt.templateArgs,
    nowMs: clock.wallMs(),
  });
  times.template(clock.nowMs() - startMs);
  return text;
}

function checkVocabulary(request: GenerationRequest, tokenIds: Uint32Array, loaded: LoadedModel): void {
  if (request.prompt.kind !== 'tokens') return; // our own encoder only makes known ids
  const size = Math.max(loaded.tokenizer.vocabSize, loaded.info.vocabSize ?? 0);
  const outside = tokenIds.find((id) => id >= size);
  if (outside === undefined) return;
  throw new ServeError(
    'invalid_value',
    `Invalid request: token id ${outside} is outside the vocabulary of ${size} entries`,
    { param: promptField(request) },
  );
}

/** The field of the client's body that holds the prompt. */
function promptField({ prompt, embedding }: GenerationRequest): string {
  if (embedding !== undefined) return 'input';
  return prompt.kind === 'chat' ? 'messages' : 'prompt';
}

/** `max_tokens` after ruling 29: what is left of the context when absent, clamped to it when larger. */
function tokensLeft(request: GenerationRequest, promptTokens: number, contextLength: number): number | undefined {
  const asked = request.stop.max_tokens;
  if (contextLength === 0 || request.prompt.kind === 'embeds') return asked; // how long embeddings are, only the worker knows
  if (promptTokens >= contextLength) {
    throw new ServeError(
      'context_length_exceeded',
      `This model's maximum context length is ${contextLength} tokens, but the prompt has ${promptTokens} tokens. Shorten the prompt.`,
      { param: promptField(request) },
    );
  }
  const left = contextLength - promptTokens;
  return asked === undefined ? left : Math.min(asked, left);
}

/** The model's own end tokens end the output unseen, unless the client asked to ignore them. */
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
