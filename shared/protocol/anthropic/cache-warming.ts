import { invalidValue } from '../openai/field-checks.ts';
import type { MessagesBody } from './messages-schema.ts';

/** Most tokens that a worker generates for such a request: no engine computes a prompt without a first token. */
export const WARMING_TOKENS = 1;

/** Returns whether a request only fills the prompt cache: Anthropic's clients send `max_tokens: 0` for that. */
export function warmsCache(body: Pick<MessagesBody, 'max_tokens'>): boolean {
  return body.max_tokens === 0;
}

/**
 * Checks that a request that only fills the cache asks for nothing of an answer. Anthropic refuses the same fields.
 * @throws ServeError `invalid_value`
 */
export function checkCacheWarming({
  stream,
  thinking,
  tool_choice: choice,
  output_config: config,
}: MessagesBody): void {
  if (stream === true) throw notWarming('stream', 'true');
  if (thinking != null && thinking.type !== 'disabled') throw notWarming('thinking.type', thinking.type);
  if (choice?.type === 'any' || choice?.type === 'tool') throw notWarming('tool_choice.type', choice.type);
  if (config?.format != null) throw notWarming('output_config.format', config.format.type);
}

function notWarming(param: string, value: string): Error {
  return invalidValue(`${param}: ${value} needs an answer, and max_tokens 0 asks for none`, param);
}
