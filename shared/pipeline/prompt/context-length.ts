import { overLimit, ServeError } from '../../errors/index.ts';
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
 * `max_tokens`: what is left of the context when absent, clamped to it when larger; and within the room of an
 * answer that is kept until it is whole.
 * @throws ServeError `context_length_exceeded` when nothing is left, `invalid_value` when the answer would be too large
 */
export function tokensLeft(
  request: GenerationRequest,
  prompt: PromptLength,
  contextLength: number,
): number | undefined {
  return fitted(request, leftOfContext(request, prompt, contextLength));
}

function leftOfContext(request: GenerationRequest, prompt: PromptLength, contextLength: number): number | undefined {
  const asked = request.stop.max_tokens;
  if (contextLength === 0 || request.prompt.kind === 'embeds') return asked; // how long embeddings are, only the worker knows
  if (prompt.tokens >= contextLength) throw tooLong(request, prompt, contextLength);
  const left = contextLength - prompt.tokens;
  return asked === undefined ? left : Math.min(asked, left);
}

/** What was asked for must fit into the room of the answer; who asked for nothing gets what fits. */
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
