import type { Clock } from '../../clock/index.ts';
import { anthropicTooLong, overLimit, ServeError } from '../../errors/index.ts';
import type { ChatMessage, EngineRequest, GenerationRequest, PromptInput } from '../../protocol/index.ts';
import type { LoadedModel, PromptEncoder, Tokenizer } from '../../tokens/index.ts';
import type { PromptObserver } from '../pipeline.ts';
import type { MediaMemory } from './media-memory.ts';

/** The dependencies for turning prompts into tokens. */
export interface PromptTools {
  readonly encoder: PromptEncoder;
  /** Memory of what engines made of media. */
  readonly media: MediaMemory;
  readonly clock: Clock;
  readonly observer: Partial<PromptObserver>;
  /** Tokens of a choice for requests that name no number. @default what the context leaves */
  readonly maxTokensDefault?: number | undefined;
}

/** Limits of one prompt. */
export interface PromptLimits {
  /** Name for metrics. */
  readonly model: string;
  /** Context in tokens. A prompt that reaches it is not counted to its end. 0 = unknown. */
  readonly contextLength: number;
  /** Whether to add the tokens that the tokenizer itself puts around a text. @default only for embeddings */
  readonly addsSpecialTokens?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PromptTokens {
  readonly tokenIds: Uint32Array;
  /** Whether all tokens are here. If not, the prompt has more, and at least as many as the context holds are here. */
  readonly isWhole: boolean;
  readonly formattedPrompt: string | undefined;
  readonly promptEmbeds: string | undefined;
}

const NO_TOKENS = new Uint32Array(0);

/**
 * Turns the prompt into tokens.
 * @throws ServeError `invalid_value`, `context_length_exceeded`, `not_implemented`; as `PromptEncoder.encode` rejects
 */
export async function tokenizePrompt(
  request: GenerationRequest,
  loaded: LoadedModel,
  tools: PromptTools,
  limits: PromptLimits,
): Promise<PromptTokens> {
  const { prompt } = request;
  const whole = { tokenIds: NO_TOKENS, isWhole: true, formattedPrompt: undefined, promptEmbeds: undefined };
  switch (prompt.kind) {
    case 'tokens':
      return { ...whole, tokenIds: new Uint32Array(prompt.tokenIds) };
    case 'embeds':
      return { ...whole, promptEmbeds: prompt.data };
    case 'raw':
      return encode(request, prompt.text, loaded, tools, limits);
    case 'chat':
      return encode(request, render(request, loaded, tools), loaded, tools, limits);
    case 'body':
    case 'tensor':
      throw new ServeError('not_implemented', `model \`${request.model}\` takes text prompts only`);
  }
}

/**
 * Encodes a text. A text that the model continues gets no special tokens: a chat template writes its own, and a raw
 * prompt belongs to the client. Embedding models are trained on texts with special tokens. Some read the vector off the
 * last one.
 */
async function encode(
  request: GenerationRequest,
  text: string,
  { tokenizer }: LoadedModel,
  { encoder, clock, observer }: PromptTools,
  { model, contextLength, addsSpecialTokens = request.embedding !== undefined, signal }: PromptLimits,
): Promise<PromptTokens> {
  const startMs = clock.nowMs();
  const clean = stripNuls(text);
  refuseHopeless(request, clean, tokenizer, contextLength);
  const { ids, isWhole, cachedTokens } = await encoder.encode(tokenizer, clean, {
    addSpecialTokens: addsSpecialTokens,
    enoughTokens: contextLength === 0 ? Number.POSITIVE_INFINITY : contextLength,
    signal,
  });
  observer.tokenize?.(clock.nowMs() - startMs);
  if (cachedTokens !== undefined) observer.tokenizerCache?.(model, cachedTokens, ids.length - cachedTokens);
  return { tokenIds: ids, isWhole, formattedPrompt: text, promptEmbeds: undefined };
}

function render(request: GenerationRequest, loaded: LoadedModel, { clock, observer }: PromptTools): string {
  const { prompt } = request;
  if (prompt.kind !== 'chat') throw new TypeError('only chats are rendered');
  if (loaded.chatTemplate === undefined) {
    throw new ServeError('invalid_value', `model \`${request.model}\` has no chat template: use /v1/completions`, {
      param: promptField(request),
    });
  }
  const startMs = clock.nowMs();
  try {
    return loaded.chatTemplate.render({
      messages: prompt.messages as readonly (ChatMessage & Record<string, unknown>)[],
      tools: prompt.tools as readonly Record<string, unknown>[] | undefined,
      addGenerationPrompt: prompt.addGenerationPrompt,
      continueFinalMessage: prompt.continueFinalMessage,
      args: prompt.templateArgs,
      nowMs: clock.wallMs(),
    });
  } catch (thrown) {
    throw thrown instanceof ServeError && thrown.code === 'invalid_value' ? inItsField(thrown, request) : thrown;
  } finally {
    observer.template?.(clock.nowMs() - startMs);
  }
}

/**
 * Returns a template's refusal as an error of the field that the client wrote. Templates of models that take only text
 * fail on content that is a list, in words that do not help the client. So the error adds a hint.
 */
function inItsField(error: ServeError, request: GenerationRequest): ServeError {
  const hasMedia = mediaParts(request.prompt) !== undefined;
  const hint = hasMedia
    ? `. They hold media, which model \`${request.model}\` may not take: it is probably not a multimodal model`
    : '';
  const param = hasMedia || error.param === 'messages' ? promptField(request) : error.param;
  return new ServeError('invalid_value', error.message + hint, { param, cause: error });
}

/**
 * Returns `text` without its NUL characters, which no tokenizer has. It works on bytes: replacing them in the text
 * takes 100 ns and two objects for each, a second for eight million.
 */
export function stripNuls(text: string): string {
  if (!text.includes('\0')) return text;
  const bytes = Buffer.from(text);
  let kept = bytes.indexOf(0);
  for (let at = kept; at < bytes.length; at++) {
    const byte = bytes[at] as number; // within its length
    if (byte !== 0) bytes[kept++] = byte;
  }
  return bytes.toString('utf8', 0, kept);
}

type MediaData = NonNullable<EngineRequest['multiModalData']>;

/** Kinds of parts that workers fetch. The request plane has no place for `input_audio`. */
const MEDIA = ['image_url', 'video_url', 'audio_url'] as const;

/**
 * Returns the pictures, clips and sounds of a chat, by kind and in the order of the prompt. The template leaves a
 * placeholder for each, and the worker fetches the medium. Undefined when there are none. Only the worker knows whether
 * its model can see or hear.
 */
export function mediaParts(prompt: PromptInput): MediaData | undefined {
  if (prompt.kind !== 'chat') return undefined;
  let found: Partial<Record<(typeof MEDIA)[number], { readonly Url: string }[]>> | undefined;
  for (const part of partsOf(prompt.messages)) {
    const kind = MEDIA.find((each) => each === part.type);
    if (kind === undefined) continue;
    found ??= {};
    found[kind] ??= [];
    // The shapes of parts were checked with the body
    found[kind].push({ Url: (part[kind] as { readonly url: string }).url });
  }
  return found;
}

function* partsOf(messages: readonly ChatMessage[]): Generator<Readonly<Record<string, unknown>>> {
  for (const { content } of messages) if (Array.isArray(content)) yield* content;
}

/** The known length of a prompt. */
interface PromptLength {
  readonly tokens: number;
  /** Whether all tokens were counted. */
  readonly isWhole: boolean;
}

/**
 * Refuses a text that cannot fit with any tokens, before it costs any work. `contextLength` 0 = unknown.
 * @throws ServeError `context_length_exceeded`
 */
function refuseHopeless(request: GenerationRequest, text: string, tokenizer: Tokenizer, contextLength: number): void {
  if (contextLength === 0 || text.length < contextLength) return; // each token has at least one character
  const tokens = tokenizer.fewestTokens?.(text.length) ?? 0;
  if (tokens >= contextLength) throw tooLong(request, { tokens, isWhole: false }, contextLength);
}

/**
 * Returns `max_tokens`: the rest of the context if absent, and never more than that. It also fits the memory of an
 * answer that is collected before it is sent.
 * @param asked number of the client, otherwise of the model or this deployment
 * @throws ServeError `context_length_exceeded` if nothing is left, `invalid_value` if the answer would be too large
 */
export function tokensLeft(
  request: GenerationRequest,
  prompt: PromptLength,
  contextLength: number,
  asked: number | undefined,
): number | undefined {
  return fitted(request, leftOfContext(request, prompt, contextLength, asked));
}

function leftOfContext(
  request: GenerationRequest,
  prompt: PromptLength,
  contextLength: number,
  asked: number | undefined,
): number | undefined {
  // Only the worker knows how long embeddings are
  if (contextLength === 0 || request.prompt.kind === 'embeds') return asked;
  if (prompt.tokens >= contextLength) throw tooLong(request, prompt, contextLength);
  const left = contextLength - prompt.tokens;
  return asked === undefined ? left : Math.min(asked, left);
}

/** Checks that requested tokens fit into the room of the answer. A request that names no number gets what fits. */
function fitted(request: GenerationRequest, tokens: number | undefined): number | undefined {
  const { answerTokensMax, stop, sampling, output } = request;
  if (tokens === undefined || answerTokensMax === undefined || tokens <= answerTokensMax) return tokens;
  if (stop.max_tokens === undefined) return answerTokensMax;
  const { n = 1 } = sampling;
  const logprobs = output.logprobs === undefined ? '' : ` x (1 + top_logprobs (${output.logprobs}))`;
  throw overLimit(
    'answer_bytes',
    `n (${n}) x max_tokens (${tokens})${logprobs} is more than an answer may hold that is not streamed ` +
      `(STATOR_HTTP_ANSWER_LIMIT_MB): it has room for ${answerTokensMax} tokens of each choice; ask for less, or stream it`,
    { param: 'max_tokens' },
  );
}

function tooLong(request: GenerationRequest, { tokens, isWhole }: PromptLength, contextLength: number): ServeError {
  const count = isWhole ? tokens : `at least ${tokens}`;
  const message =
    request.endpoint === 'anthropic_messages'
      ? anthropicTooLong(`${count}`, contextLength)
      : openAiTooLong(request, count, contextLength);
  return new ServeError('context_length_exceeded', message, { param: promptField(request) });
}

/** Returns OpenAI's words for a prompt that does not fit: clients without the code look for them. */
function openAiTooLong(
  { endpoint, prompt: { kind } }: GenerationRequest,
  count: number | string,
  contextLength: number,
) {
  const isInput = endpoint === 'responses' || endpoint === 'embeddings';
  const prompt = isInput ? 'input' : kind === 'chat' ? 'messages' : 'prompt';
  return (
    `This model's maximum context length is ${contextLength} tokens. However, your ${prompt} resulted in ` +
    `${count} tokens. Please reduce the length of the ${prompt}.`
  );
}

/** Returns the field of the client's body that holds the prompt. */
export function promptField({ endpoint, prompt }: GenerationRequest): string {
  switch (endpoint) {
    case 'embeddings':
      return 'input';
    case 'responses':
    case 'chat_completions':
    case 'anthropic_messages':
      if (prompt.kind === 'tokens') return 'nvext.token_data'; // sent in place of the conversation
      return endpoint === 'responses' ? 'input' : 'messages';
    default:
      return prompt.kind === 'chat' ? 'messages' : 'prompt';
  }
}
