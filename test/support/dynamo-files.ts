import { readFileSync } from 'node:fs';

/** Returns the files that two mock workers of Dynamo 1.6.1 kept in the folder of file discovery, by path. */
export function recordedFiles(): ReadonlyMap<string, string> {
  const path = new URL('../fixtures/dynamo/file-discovery-1.6.1.json', import.meta.url);
  return new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Readonly<Record<string, string>>));
}
