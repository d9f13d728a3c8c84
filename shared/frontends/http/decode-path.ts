/** A path that is not valid percent-encoding names itself. */
export function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // nothing has that name, which is the answer
  }
}

/** Longer ids are nobody's, and are not sent back whole. */
const SHOWN_MAX = 300;

/** An id out of a path as an error shows it. */
export function shownId(id: string): string {
  return id.length <= SHOWN_MAX ? id : `${id.slice(0, SHOWN_MAX)}...`;
}
