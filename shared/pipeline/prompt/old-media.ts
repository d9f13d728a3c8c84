import { ServeError } from '../../errors/index.ts';
import type { ChatMessage, GenerationRequest } from '../../protocol/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import { mediaParts, type PromptLimits, type PromptTokens, type PromptTools, tokenizePrompt } from './prompt-tokens.ts';

/** Text in place of a medium that the user has sent before. */
const NOTES: ReadonlyMap<unknown, string> = new Map([
  ['image_url', 'a picture'],
  ['video_url', 'a video'],
  ['audio_url', 'a sound'],
  ['input_audio', 'a sound'],
]);

/** A request whose prompt the template takes, and its tokens. */
interface Tokenized {
  readonly request: GenerationRequest;
  readonly tokens: PromptTokens;
}

/**
 * Turns a prompt into tokens. If the template refuses it, texts take the place of media from before the user's last
 * message, and of those that tools returned, which follow their results in a user's message. Clients send them again
 * with every turn, so that one picture for a model that takes only text would fail all that follow. Other media in the
 * last message are new, and still refused.
 * @throws ServeError as `tokenizePrompt`
 */
export async function tokenizeReadable(
  request: GenerationRequest,
  loaded: LoadedModel,
  tools: PromptTools,
  limits: PromptLimits,
): Promise<Tokenized> {
  try {
    return { request, tokens: await tokenizePrompt(request, loaded, tools, limits) };
  } catch (thrown) {
    const isRefused = thrown instanceof ServeError && thrown.code === 'invalid_value';
    const readable = isRefused ? withoutOldMedia(request) : undefined;
    if (readable === undefined) throw thrown;
    return { request: readable, tokens: await tokenizePrompt(readable, loaded, tools, limits) };
  }
}

/** Returns the request with texts in place of earlier media; undefined if it has none, or new ones as well. */
function withoutOldMedia(request: GenerationRequest): GenerationRequest | undefined {
  const { prompt } = request;
  if (prompt.kind !== 'chat' || mediaParts(prompt) === undefined) return undefined;
  const { messages } = prompt;
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const isOld = last < 0 || messages[last - 1]?.role === 'tool' ? () => true : (at: number) => at < last;
  const readable = { ...prompt, messages: messages.map((message, at) => (isOld(at) ? asText(message) : message)) };
  return mediaParts(readable) === undefined ? { ...request, prompt: readable } : undefined;
}

function asText(message: ChatMessage): ChatMessage {
  const { content } = message;
  if (!Array.isArray(content) || !content.some(({ type }) => NOTES.has(type))) return message;
  return { ...message, content: content.map(noteOf) };
}

function noteOf(part: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const name = NOTES.get(part.type);
  return name === undefined ? part : { type: 'text', text: `[${name} was left out: this model takes text only]` };
}
