import type { CountTokensBody } from './messages-schema.ts';

const PREAMBLE = 'x-anthropic-billing-header:';

/**
 * The system prompt as one text: blocks are joined by newlines. With `stripsPreamble` a leading billing line or block of
 * a client is left out: it changes with every build of the client and would keep prompts from sharing a prefix.
 */
export function systemText(system: CountTokensBody['system'], stripsPreamble: boolean): string {
  if (system == null) return '';
  const text = typeof system === 'string' ? system : system.map((block) => block.text).join('\n');
  if (!stripsPreamble || !text.startsWith(PREAMBLE)) return text;
  const lineEnd = text.indexOf('\n');
  return lineEnd < 0 ? '' : text.slice(lineEnd + 1);
}
