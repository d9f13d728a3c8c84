import { ServeError } from '../../errors/index.ts';
import type { UnknownRecord } from '../../records/index.ts';

/**
 * Mark that is written after the last message while it is rendered. It consists of digits, which no filter changes; a
 * blank follows it, which trimming removes.
 */
const FIRST_MARK = 90_257_413_680_924_713_568n;
const MARKS_TRIED_MAX = 100;

/**
 * Returns the prompt up to the end of the last message, where the model continues. Renders the message with a mark
 * after its text: a search for the text itself could match text that the template writes, or miss text that the
 * template changes.
 * @param write renders messages
 * @throws ServeError `invalid_value` when the template does not show the end of the last message
 */
export function cutAfterPrefill(
  messages: readonly UnknownRecord[],
  write: (messages: readonly UnknownRecord[]) => string,
): string {
  const last = messages.at(-1);
  const mark = markFor(write(messages));
  const marked = withMark(last?.content, mark);
  if (last === undefined || marked === undefined || marked.text.trim() === '') throw notShown();
  const text = write([...messages.slice(0, -1), { ...last, content: marked.content }]);
  const at = text.lastIndexOf(mark);
  if (at < 0) throw notShown();
  const isTrimmed = text[at + mark.length] !== ' ';
  const prompt = text.slice(0, isTrimmed ? withoutSpaces(text, at, marked.text) : at);
  return prompt.replaceAll(`${mark} `, '').replaceAll(mark, ''); // a template may write the message more than once
}

/** Returns a mark that does not occur in the prompt without it. */
function markFor(prompt: string): string {
  for (let tried = 0n; tried < MARKS_TRIED_MAX; tried++) {
    const mark = String(FIRST_MARK + tried * 7919n);
    if (!prompt.includes(mark)) return mark;
  }
  throw notShown();
}

/**
 * Returns the content with a mark after its last text, and that text; undefined if the content does not end in text.
 */
function withMark(content: unknown, mark: string): { readonly content: unknown; readonly text: string } | undefined {
  if (typeof content === 'string') return { content: `${content}${mark} `, text: content };
  const last: unknown = Array.isArray(content) ? content.at(-1) : undefined;
  if (!Array.isArray(content) || typeof last !== 'object' || last === null) return undefined;
  const { text } = last as UnknownRecord;
  if (typeof text !== 'string') return undefined;
  return { content: [...content.slice(0, -1), { ...last, text: `${text}${mark} ` }], text };
}

/**
 * Returns the end of the message without the white space that the template's trimming removed; the template's own white
 * space stays.
 */
function withoutSpaces(text: string, end: number, content: string): number {
  const atEnd = (part: string): number => part.length - part.trimEnd().length;
  return end - Math.min(atEnd(content), atEnd(text.slice(0, end)));
}

function notShown(): ServeError {
  return new ServeError(
    'invalid_value',
    'continue_final_message: the chat template does not show the last message as it is',
    { param: 'continue_final_message' },
  );
}
