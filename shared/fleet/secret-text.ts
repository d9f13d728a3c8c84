import { isRecord } from '../records/index.ts';

/**
 * Returns the fields of a secret that is JSON; they are empty if the JSON is not a record. Returns undefined for a
 * secret that is plain text.
 * @throws Error that does not show the secret
 */
export function secretFields(text: string): Readonly<Record<string, unknown>> | undefined {
  if (!text.trimStart().startsWith('{')) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error('the secret begins like JSON but is not valid JSON'); // the parser's own message quotes the text
  }
  return isRecord(parsed) ? parsed : {};
}
