/**
 * Entities as the models' templates escape them. They are decoded one after the other in this order, so that a decoded
 * `&` may complete a later one.
 */
const ENTITIES: readonly (readonly [string, string])[] = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&amp;', '&'],
  ['&quot;', '"'],
  ['&#x27;', "'"],
  ['&#39;', "'"],
];

/** Every text that decodes to one character. */
const FORMS = [...ENTITIES.map(([entity]) => entity), '&amp;quot;', '&amp;#x27;', '&amp;#39;'];

export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return ENTITIES.reduce((decoded, [entity, character]) => decoded.replaceAll(entity, character), text);
}

/** `decodeEntities` for text that comes in pieces: what may become an entity is held back until that is known. */
export function createEntityDecoder(): (text: string, isLast: boolean) => string {
  let held = '';
  return (piece, isLast) => {
    const text = held + piece;
    const at = isLast ? -1 : text.lastIndexOf('&');
    const tail = at < 0 ? '' : text.slice(at);
    const isOpen = tail !== '' && FORMS.some((form) => form.length > tail.length && form.startsWith(tail));
    held = isOpen ? tail : '';
    return decodeEntities(isOpen ? text.slice(0, at) : text);
  };
}
