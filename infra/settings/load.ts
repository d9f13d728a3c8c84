import { randomUUID } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BuildFailure, build, type Message } from 'esbuild';
import { reasonOf } from '../../shared/errors/index.ts';
import { SettingsError } from './problems.ts';
import { readSettings, type Settings } from './settings.ts';

/** Path of the configuration without `-c config=PATH`, relative to the repository. */
const DEFAULT_CONFIG = 'infra/stator.config.ts';

/**
 * Reads and checks a configuration file (TypeScript, JavaScript or JSON, its default export).
 * @param file relative to the folder that `cdk` runs in
 * @throws SettingsError in one line if the file is missing, is not TypeScript, or has unknown or invalid settings
 */
export async function loadConfig(file = DEFAULT_CONFIG): Promise<Settings> {
  const path = resolve(file);
  if (!existsSync(path)) throw new SettingsError(`${file}: there is no such file; -c config=PATH names another one`);
  // Under node_modules, from where its imports of packages are resolved; its own, as other runs may read the same file.
  const outfile = resolve(`node_modules/.cache/stator/config-${randomUUID()}.mjs`);
  try {
    for (const warning of await bundle(path, outfile, file)) process.stderr.write(`${file}: ${warning}\n`);
    const module = (await import(pathToFileURL(outfile).href)) as { default?: unknown };
    return readSettings(module.default, file);
  } finally {
    rmSync(outfile, { force: true });
  }
}

/** @returns what is odd in the file, such as a key that it has twice */
async function bundle(path: string, outfile: string, file: string): Promise<readonly string[]> {
  const output = { outfile, bundle: true, packages: 'external', platform: 'node', format: 'esm' } as const;
  try {
    const { warnings } = await build({ entryPoints: [path], ...output, logLevel: 'silent' });
    return warnings.map(describe);
  } catch (thrown) {
    const [first] = (thrown as Partial<BuildFailure>).errors ?? [];
    throw new SettingsError(`${file}: ${first === undefined ? reasonOf(thrown) : describe(first)}`);
  }
}

function describe({ text, location }: Message): string {
  return location === null ? text : `${text}, on line ${location.line}: ${location.lineText.trim()}`;
}
