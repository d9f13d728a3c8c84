/**
 * `text` without its NUL characters, which no tokenizer has. By bytes, since replacing them in the text takes 100 ns and two
 * objects for each: a second for eight million.
 */
export function stripNuls(text: string): string {
  if (!text.includes('\0')) return text;
  const bytes = Buffer.from(text);
  let kept = bytes.indexOf(0);
  for (let at = kept; at < bytes.length; at++) {
    const byte = bytes[at] as number; // within its length
    if (byte !== 0) bytes[kept++] = byte;
  }
  return bytes.toString('utf8', 0, kept);
}
