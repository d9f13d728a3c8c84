import type { NamedLogprob, TokenLogprob } from '../../../protocol/generation/index.ts';

/** One entry of `choices[].logprobs.content` of chat answers. */
export function chatLogprob(token: TokenLogprob): object {
  return {
    token: token.token,
    logprob: token.logprob,
    token_id: token.tokenId,
    bytes: token.bytes,
    top_logprobs: token.top.map(alternative),
  };
}

function alternative({ token, logprob, bytes }: NamedLogprob): object {
  return { token, logprob, bytes };
}

/** `choices[].logprobs` of a chat answer; null when there are none. */
export function chatLogprobs(tokens: readonly TokenLogprob[] | undefined): object | null {
  if (tokens === undefined || tokens.length === 0) return null;
  return { content: tokens.map(chatLogprob), refusal: null };
}

/** `choices[].logprobs` of a completions answer; offsets stay empty. */
export interface CompletionLogprobs {
  readonly tokens: string[];
  readonly token_logprobs: number[];
  readonly top_logprobs: Readonly<Record<string, number>>[];
  readonly text_offset: number[];
}

/**
 * Alternatives by their text; the sampled token stands among them under the text that the answer has. Of several tokens with
 * one text (parts of characters all read U+FFFD) the likeliest stays, but the sampled one keeps its own value.
 */
function byText({ top, token, logprob }: TokenLogprob): Record<string, number> {
  const alternatives = new Map<string, number>();
  for (const other of top) {
    alternatives.set(other.token, Math.max(other.logprob, alternatives.get(other.token) ?? Number.NEGATIVE_INFINITY));
  }
  return Object.fromEntries(alternatives.set(token, logprob));
}

export function completionLogprobs(tokens: readonly TokenLogprob[]): CompletionLogprobs {
  return {
    tokens: tokens.map((token) => token.token),
    token_logprobs: tokens.map((token) => token.logprob),
    top_logprobs: tokens.filter((token) => token.top.length > 0).map(byText),
    text_offset: [],
  };
}
