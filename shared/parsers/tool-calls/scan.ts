import type { Finder } from './markers.ts';
import type { Parsing, TextSource } from './text-source.ts';

/** The next character, unread; empty at the end of the text. */
export function* peek(source: TextSource): Parsing<string> {
  while (source.isEmpty) {
    if (source.isEnded) return '';
    yield;
  }
  return source.text[source.at] as string; // not empty
}

/** Reads white space and returns the character after it, unread; empty at the end of the text. */
export function* skipSpace(source: TextSource): Parsing<string> {
  for (;;) {
    passOverSpace(source);
    if (!source.isEmpty) return source.text[source.at] as string;
    if (source.isEnded) return '';
    yield;
  }
}

/** Reads the one of `options` that stands here, if any does. None may be the beginning of another. */
export function* readOneOf(source: TextSource, options: readonly string[]): Parsing<string | undefined> {
  for (;;) {
    const { text, at } = source;
    let isOpen = false;
    for (const option of options) {
      if (text.startsWith(option, at)) {
        source.at += option.length;
        return option;
      }
      if (text.length - at < option.length && option.startsWith(text.slice(at))) isOpen = true;
    }
    if (!isOpen || source.isEnded) return undefined;
    yield;
  }
}

/** As `readOneOf`, behind white space; reads nothing at all when none of them follows. */
export function* readOneOfBehindSpace(source: TextSource, options: readonly string[]): Parsing<string | undefined> {
  let space = '';
  for (;;) {
    const from = source.at;
    passOverSpace(source);
    space += source.text.slice(from, source.at);
    if (!source.isEmpty || source.isEnded) break;
    yield;
  }
  const option = yield* readOneOf(source, options);
  if (option === undefined) source.unread(space);
  return option;
}

/**
 * Reads up to a marker and the marker itself, which it returns, and hands on what stands before; `undefined` at the end.
 * Where the text ends in what may have become a marker, that tail is dropped as markup, unless `isProse`.
 */
export function* readUntil(
  source: TextSource,
  markers: Finder,
  take?: (piece: string) => void,
  isProse = false,
): Parsing<string | undefined> {
  for (;;) {
    const { text, at } = source;
    const found = markers.find(text, at, source.isEnded && isProse);
    if (found > at) take?.(text.slice(at, found));
    const marker = found < text.length ? markers.match(text, found) : undefined;
    if (marker !== undefined) {
      source.at = found + marker.length;
      return marker;
    }
    source.at = source.isEnded ? text.length : found;
    if (source.isEnded) return undefined;
    yield;
  }
}

/** The text before a marker, which is read too. */
export function* collectUntil(
  source: TextSource,
  markers: Finder,
): Parsing<{ readonly text: string; readonly marker: string | undefined }> {
  let text = '';
  const marker = yield* readUntil(source, markers, (piece) => {
    text += piece;
  });
  return { text, marker };
}

/** Reads all that is left and forgets it. */
export function* ignoreRest(source: TextSource): Parsing {
  for (;;) {
    source.at = source.text.length;
    if (source.isEnded) return;
    yield;
  }
}

function passOverSpace(source: TextSource): void {
  const { text } = source;
  while (source.at < text.length && isSpace(text.charCodeAt(source.at))) source.at++;
}

export function isSpace(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13) || code === 0xa0;
}
