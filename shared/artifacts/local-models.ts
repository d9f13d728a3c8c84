import { existsSync, readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { homeFolder } from '../config/index.ts';

/**
 * Finds the local folder of a model that an engine names: the folder itself, or the copy that the engine has downloaded
 * from the Hugging Face hub (`HF_HUB_CACHE`, `HF_HOME`, else `~/.cache/huggingface`).
 * @returns undefined if there is none on this machine
 */
export async function findLocalModel(
  name: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string | undefined> {
  if (await isFolder(name)) return resolve(name);
  if (isAbsolute(name) || !/^[\w.-]+\/[\w.-]+$/.test(name)) return undefined;
  const root = env.HF_HUB_CACHE || join(env.HF_HOME || join(homeFolder(), '.cache', 'huggingface'), 'hub');
  const folder = join(root, `models--${name.replace('/', '--')}`);
  const revision = await readFile(join(folder, 'refs', 'main'), 'utf8').catch(() => ''); // not downloaded
  const snapshot = join(folder, 'snapshots', revision.trim());
  return revision.trim() !== '' && (await isFolder(snapshot)) ? snapshot : undefined;
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false, // absence is the answer
  );
}

/** Name of the folder in the source tree and beside the bundles. */
const FOLDER = 'builtin-model';

/** Returns the folder of the model that comes with the product: a small tokenizer, no weights. */
export function builtinModelPath(): string {
  // From sources it lies beside this file; from a bundle it lies in dist/ or in dist/chunks/.
  const here = dirname(fileURLToPath(import.meta.url));
  const places = [join(here, FOLDER), join(here, '..', FOLDER)];
  const found = places.find((place) => existsSync(place));
  if (found === undefined) throw new Error(`${FOLDER} is missing from ${here}; build again with: npm run build`);
  return found;
}

let text: string | undefined;

/** Returns the text that mock engines recite: English paragraphs, separated by blank lines, about 6 kB. Read once. */
export function builtinText(): string {
  text ??= readFileSync(join(builtinModelPath(), 'text.txt'), 'utf8');
  return text;
}
