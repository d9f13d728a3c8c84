import { basename, join, resolve } from 'node:path';
import { compareModelFile, type ModelFile, ModelFolderError } from '../tokens/index.ts';
import { CUSTOM_TEMPLATE_ROLE, type ModelReference } from './model-reference.ts';

/**
 * Finds the local folder of a model by checksum: where the card says it is, else under `modelPath`.
 * @returns the absolute path of a folder that holds every file of the card, unchanged
 * @throws ModelFolderError naming the first file that is absent or differs
 */
export async function openModelFolder(reference: ModelReference): Promise<string> {
  const folders = candidateFolders(reference);
  if (folders.length === 0) {
    throw new ModelFolderError(
      `model ${reference.modelName}: its card names no files; give its folder with --model-path`,
    );
  }
  let reason = '';
  for (const folder of folders) {
    const difference = await findDifference(folder, reference.files);
    if (difference === undefined) return folder;
    reason = reason === '' ? difference : `${reason}; ${difference}`;
  }
  throw new ModelFolderError(
    `model ${reference.modelName}: ${reason}; give a folder with the worker's files with --model-path`,
  );
}

function candidateFolders({ files, modelPath }: ModelReference): readonly string[] {
  const first = files['tokenizer.json'] ?? Object.entries(files).find(([role]) => role !== CUSTOM_TEMPLATE_ROLE)?.[1];
  const folders = first === undefined ? [] : [resolve(first.path, '..')];
  if (modelPath !== undefined) folders.push(resolve(modelPath));
  return [...new Set(folders)];
}

async function findDifference(folder: string, files: Readonly<Record<string, ModelFile>>): Promise<string | undefined> {
  for (const [role, wanted] of Object.entries(files)) {
    if (role === CUSTOM_TEMPLATE_ROLE) continue; // has a place of its own
    const path = join(folder, basename(wanted.path));
    const found = await compareModelFile(path, wanted);
    if (found === 'absent') return `${path} (${role}) is absent`;
    if (found === 'different') return `${path} (${role}) differs from the worker's copy`;
  }
  return undefined;
}
