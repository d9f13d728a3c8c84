import { setImmediate } from 'node:timers/promises';
import { askLoader, findThreadEntry } from './ask-loader.ts';
import type { SpecialTokens } from './model-info.ts';
import { type ChatTemplateSource, compileChatTemplateInTurns } from './template/chat-template.ts';
import { type Node, parseTokens, TemplateSyntaxError, tokenizeTemplate } from './template/syntax.ts';
import type { ChatTemplate } from './types.ts';

/** Nearly all templates in use are shorter. Two turns of some milliseconds; another thread costs 50 ms of CPU. */
const SMALL_CHARS_MAX = 16 * 1024;

export interface LoadChatTemplateOptions {
  /** As of `compileChatTemplate`. */
  readonly onHopeless: (reason: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Compiles a chat template and finds out what it takes, without holding up the event loop: a long one is parsed in a thread,
 * and the rest is done a piece a turn.
 * @throws as `compileChatTemplate`
 */
export function loadChatTemplate(
  source: ChatTemplateSource,
  tokens: SpecialTokens,
  { onHopeless, signal }: LoadChatTemplateOptions,
): Promise<ChatTemplate> {
  const pause = async (): Promise<void> => {
    await setImmediate();
    signal?.throwIfAborted();
  };
  return compileChatTemplateInTurns(source, tokens, { parse: (text) => parse(text, pause, signal), pause, onHopeless });
}

async function parse(source: string, pause: () => Promise<void>, signal?: AbortSignal): Promise<readonly Node[]> {
  const entry = source.length > SMALL_CHARS_MAX ? findThreadEntry('tokenizer-loader.js') : undefined;
  if (entry === undefined) {
    const tokens = tokenizeTemplate(source);
    await pause();
    return parseTokens(tokens);
  }
  const answer = await askLoader(entry, { kind: 'template', source }, signal);
  if ('nodes' in answer) return answer.nodes;
  throw new TemplateSyntaxError('syntaxError' in answer ? answer.syntaxError : 'the loader gave an unexpected answer');
}
