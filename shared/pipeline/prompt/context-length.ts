import { ServeError } from '../../errors/index.ts';
import type { GenerationRequest } from '../../protocol/generation/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

/** How long a prompt is known to be. */
export interface PromptLength {
  readonly tokens: number;
  /** False when there are more tokens than were counted. */
  readonly isWhole: boolean;
}

/**
 * Refuses a text that no choice of tokens makes fit, before any work is spent on it. `contextLength` 0 = unknown.
 * @throws ServeError `context_length_exceeded`
 */
export function refuseHopeless(
  request: GenerationRequest,
  text: string,
  tokenizer: Tokenizer,
  contextLength: number,
): void {
  if (contextLength === 0 || text.length < contextLength) return; // no token without a character
  const tokens = tokenizer.fewestTokens?.(text.length) ?? 0;
  if (tokens >= contextLength) throw tooLong(request, { tokens, isWhole: false }, contextLength);
}

/**
 * `max_tokens` after ruling 29: what is left of the context when absent, clamped to it when larger.
 * @throws ServeError `context_length_exceeded` when nothing is left
 */
export function tokensLeft(
  request: GenerationRequest,
  prompt: PromptLength,
  contextLength: number,
): number | undefined {
  const asked = request.stop.max_tokens;
  if (contextLength === 0 || request.prompt.kind === 'embeds') return asked; // how long embeddings are, only the worker knows
  if (prompt.tokens >= contextLength) throw tooLong(request, prompt, contextLength);
  const left = contextLength - prompt.tokens;
  return asked === undefined ? left : Math.min(asked, left);
}

function tooLong(request: GenerationRequest, { tokens, isWhole }: PromptLength, contextLength: number): ServeError {
  const count = isWhole ? tokens : `at least ${tokens}`;
  return new ServeError(
    'context_length_exceeded',
    `This model's maximum context length is ${contextLength} tokens, but the prompt has ${count} tokens. Shorten the prompt.`,
    { param: promptField(request) },
  );
}

/** The field of the client's body that holds the prompt. */
export function promptField({ endpoint, prompt }: GenerationRequest): string {
  switch (endpoint) {
    case 'embeddings':
      return 'input';
    case 'responses':
    case 'chat_completions':
    case 'anthropic_messages':
      if (prompt.kind === 'tokens') return 'nvext.token_data'; // given in place of the conversation
      return endpoint === 'responses' ? 'input' : 'messages';
    default:
      return prompt.kind === 'chat' ? 'messages' : 'prompt';
  }
}
