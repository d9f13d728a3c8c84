/** Whether `text` is its own UTF-8, a byte a character. For short texts: it looks at every character. */
export function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}
