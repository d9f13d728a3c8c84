import type { NamedLogprob, TokenLogprob } from '../../../protocol/generation/index.ts';
import { LazyList } from '../../../protocol/json/index.ts';

/** One entry of `choices[].logprobs.content` of chats. */
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

/** `choices[].logprobs` of a chat; null when there are none. */
export function chatLogprobs(tokens: readonly TokenLogprob[] | undefined): object | null {
  if (tokens === undefined || tokens.length === 0) return null;
  return { content: tokens.map(chatLogprob), refusal: null };
}

/** As `chatLogprobs`, of a whole answer. */
export function wholeChatLogprobs(tokens: readonly TokenLogprob[]): object | null {
  return tokens.length === 0 ? null : { content: new LazyList(tokens, chatLogprob), refusal: null };
}

/** `choices[].logprobs` of completions; offsets stay empty. */
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
    tokens: tokens.map(textOf),
    token_logprobs: tokens.map(logprobOf),
    top_logprobs: tokens.filter(hasAlternatives).map(byText),
    text_offset: [],
  };
}

/** As `completionLogprobs`, of a whole answer. */
export function wholeCompletionLogprobs(tokens: readonly TokenLogprob[]): object {
  const withAlternatives = tokens.filter(hasAlternatives);
  return {
    tokens: new LazyList(tokens, textOf),
    token_logprobs: new LazyList(tokens, logprobOf),
    top_logprobs: new LazyList(withAlternatives, byText),
    text_offset: [],
  };
}

const textOf = ({ token }: TokenLogprob): string => token;
const logprobOf = ({ logprob }: TokenLogprob): number => logprob;
const hasAlternatives = ({ top }: TokenLogprob): boolean => top.length > 0;
