import { isRecord } from '../records/index.ts';

/**
 * What a secret says that is JSON, without any fields if that is no record. Undefined for one that is a text itself.
 * @throws Error that says nothing of what is in it
 */
export function secretFields(text: string): Readonly<Record<string, unknown>> | undefined {
  if (!text.trimStart().startsWith('{')) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error('the secret begins as JSON and is none'); // the parser's own words quote the text
  }
  return isRecord(parsed) ? parsed : {};
}
