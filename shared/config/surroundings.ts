import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import type { Surroundings } from './values/value-type.ts';

/** The machine that this process runs on. Configuration is read once, before anything is served, so reads may block. */
export function machineSurroundings(env: Readonly<Record<string, string | undefined>>): Surroundings {
  return {
    homeDir: homedir(),
    env,
    kindOf: (path) => {
      const found = statSync(path, { throwIfNoEntry: false });
      if (found === undefined) return 'none';
      return found.isDirectory() ? 'folder' : 'file';
    },
    readText: (path) => readFileSync(path, 'utf8'),
    sizeBytes: (path) => statSync(path).size,
  };
}
