/** Returns a side event: a name, and a comment with a JSON value. It has no data. */
export function annotationFrame(name: string, jsonValue: string): string {
  return `event: ${name}\n: ${jsonValue.replaceAll(/[\r\n]/g, ' ')}\n\n`;
}

/** Returns the frame of a preprocessing annotation. Token ids become a JSON string that holds the text of the array. */
export function preprocessorFrame(name: string, jsonValue: string): string {
  return annotationFrame(name, name === 'token_ids' ? JSON.stringify(jsonValue) : jsonValue);
}
