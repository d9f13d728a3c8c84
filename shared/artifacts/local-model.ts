import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';

/**
 * The local folder of a model that an engine names: the folder itself, or the copy that the engine has downloaded from the
 * Hugging Face hub (`HF_HUB_CACHE`, `HF_HOME`, else `~/.cache/huggingface`).
 * @returns undefined when there is none on this machine
 */
export async function findLocalModel(
  name: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string | undefined> {
  if (await isFolder(name)) return resolve(name);
  if (isAbsolute(name) || !/^[\w.-]+\/[\w.-]+$/.test(name)) return undefined;
  const root = env.HF_HUB_CACHE || join(env.HF_HOME || join(homedir(), '.cache', 'huggingface'), 'hub');
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
