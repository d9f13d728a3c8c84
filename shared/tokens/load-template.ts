import { setImmediate } from 'node:timers/promises';
import { askLoader, findThreadEntry } from './ask-loader.ts';
import type { SpecialTokens } from './model-info.ts';
import { type ChatTemplateSource, compileChatTemplateInTurns } from './template/chat-template.ts';
import { type Node, parseTokens, TemplateSyntaxError, tokenizeTemplate } from './template/syntax.ts';
import type { ChatTemplate } from './types.ts';

/**
 * Length up to which a template is parsed on the event loop, in two turns of some milliseconds; another thread costs 50
 * ms of CPU. Nearly all templates in use are shorter.
 */
const SMALL_CHARS_MAX = 16 * 1024;

export interface LoadChatTemplateOptions {
  /** See `compileChatTemplate`. */
  readonly onHopeless: (reason: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Compiles a chat template and finds out what it accepts, without blocking the event loop: a thread parses a long one,
 * and the other steps take a turn of the event loop each.
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
