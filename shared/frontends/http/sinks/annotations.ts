/** A side event: a name and a comment with a JSON value, no data. */
export function annotationFrame(name: string, jsonValue: string): string {
  return `event: ${name}\n: ${jsonValue.replaceAll(/[\r\n]/g, ' ')}\n\n`;
}

/** The frame of a preprocessing annotation. Token ids are shown as a JSON string that holds the array's text (1.6.1). */
export function preprocessorFrame(name: string, jsonValue: string): string {
  return annotationFrame(name, name === 'token_ids' ? JSON.stringify(jsonValue) : jsonValue);
}
