import { Markers } from '../markers.ts';
import { collectUntil } from '../scan.ts';
import type { Parsing, TextSource } from '../text-source.ts';

const TAG_END = new Markers(['>']);

/** Reads a name up to `>`, without white space and quotes around it; `undefined` when it is empty, torn or cut. */
export function* readTagName(source: TextSource): Parsing<string | undefined> {
  const { text, marker } = yield* collectUntil(source, TAG_END);
  const name = unquote(text.trim());
  return marker === undefined || name === '' || name.includes('<') ? undefined : name;
}

/** The text without one pair of quotes around it. */
export function unquote(text: string): string {
  const quote = text[0];
  return (quote === '"' || quote === "'") && text.length > 1 && text.endsWith(quote) ? text.slice(1, -1) : text;
}
