/** A path that is not valid percent-encoding names itself. */
export function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // nothing has that name, which is the answer
  }
}
