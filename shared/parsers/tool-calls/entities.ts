/**
 * Entities as the models' templates escape them. They are decoded one after the other in this order, so that a decoded
 * `&` may complete a later one (parsers.md, section 1.5).
 */
const ENTITIES: readonly (readonly [string, string])[] = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&amp;', '&'],
  ['&quot;', '"'],
  ['&#x27;', "'"],
  ['&#39;', "'"],
];

/** The longest text that decodes to one character. */
const LENGTH_MAX = '&amp;#x27;'.length;

export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return ENTITIES.reduce((decoded, [entity, character]) => decoded.replaceAll(entity, character), text);
}

/** `decodeEntities` for text that comes in pieces: an `&` near the end is held back until what follows it is known. */
export function createEntityDecoder(): (text: string, isLast: boolean) => string {
  let held = '';
  return (piece, isLast) => {
    const text = held + piece;
    const tail = isLast ? -1 : text.indexOf('&', Math.max(0, text.length - LENGTH_MAX));
    const end = tail < 0 ? text.length : tail;
    held = text.slice(end);
    return decodeEntities(text.slice(0, end));
  };
}
