import { readFileSync } from 'node:fs';

/** Releases of Dynamo whose files are recorded. */
export type RecordedRelease = '1.2.1' | '1.3.1' | '1.4.2' | '1.5.1' | '1.6.1';

/**
 * Returns the files that mock workers of Dynamo kept in the folder of file discovery, by path: two of 1.6.1, else one.
 */
export function recordedFiles(release: RecordedRelease = '1.6.1'): ReadonlyMap<string, string> {
  const path = new URL(`../fixtures/dynamo/file-discovery-${release}.json`, import.meta.url);
  return new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Readonly<Record<string, string>>));
}
