import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { readSettings, type Settings } from './settings.ts';

/** Where it is looked for without `-c config=PATH`, relative to the repository. */
const DEFAULT_CONFIG = 'infra/stator.config.ts';

/**
 * Reads and checks a configuration file (TypeScript, JavaScript or JSON, its default export).
 * @param file relative to the folder that `cdk` runs in
 * @throws Error in one line when it is not there, or says what nobody understands
 */
export async function loadConfig(file = DEFAULT_CONFIG): Promise<Settings> {
  const path = resolve(file);
  if (!existsSync(path)) throw new Error(`${file}: there is no such file; -c config=PATH names another one`);
  // Under node_modules, from where its imports of packages are resolved.
  const name = createHash('sha256').update(path).digest('hex').slice(0, 12);
  const outfile = resolve(`node_modules/.cache/stator/config-${name}.mjs`);
  await build({ entryPoints: [path], outfile, bundle: true, packages: 'external', platform: 'node', format: 'esm' });
  const module = (await import(pathToFileURL(outfile).href)) as { default?: unknown };
  return readSettings(module.default, file);
}
