import { readFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { compareModelFile, describeModelFile, type ModelFile, ModelFolderError } from '../tokens/index.ts';

/** Largest size of a chat template. */
const TEMPLATE_BYTES_MAX = 16 * 1024 * 1024;

/** Role on the card of a chat template that replaces the model's own (`--custom-jinja-template`). */
export const CUSTOM_TEMPLATE_ROLE = 'custom_chat_template';

/** Thrown if files of a model are missing on this machine or differ. The message says which files, and what to do. */
export class ModelFilesAbsent extends ModelFolderError {}

/** Model folder to open: the files that a card names, and optionally the copy of this process. */
export interface ModelReference {
  /** Name of the model, for messages. */
  readonly modelName: string;
  /** Files by role, as on the card. */
  readonly files: Readonly<Record<string, ModelFile>>;
  /** `--model-path` of this process: searched if a file is not where the worker has it. */
  readonly modelPath?: string | undefined;
}

/**
 * Finds the local folder of a model by checksum: at the place that the card names, else under `modelPath`.
 * @returns the absolute path of a folder that holds every file of the card, unchanged
 * @throws ModelFilesAbsent naming the first file that is absent or differs
 */
export async function openModelFolder(reference: ModelReference): Promise<string> {
  const folders = candidateFolders(reference);
  if (folders.length === 0 && Object.keys(reference.files).length > 0) {
    throw new ModelFilesAbsent(
      `model ${reference.modelName}: its files are not on this machine; ` +
        "give a folder with the worker's files with --model-path",
    );
  }
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
  throw new ModelFilesAbsent(
    `model ${reference.modelName}: ${reason}; give a folder with the worker's files with --model-path`,
  );
}

function candidateFolders({ files, modelPath }: ModelReference): readonly string[] {
  const first = files['tokenizer.json'] ?? Object.entries(files).find(([role]) => role !== CUSTOM_TEMPLATE_ROLE)?.[1];
  const folders = first === undefined || isUrl(first.path) ? [] : [resolve(first.path, '..')];
  if (modelPath !== undefined) folders.push(resolve(modelPath));
  return [...new Set(folders)];
}

/** Whether a card has a URL in place of the path of a file, as cards of Dynamo may. */
export function isUrl(path: string): boolean {
  return /^[a-z]+:\/\//.test(path);
}

async function findDifference(folder: string, files: Readonly<Record<string, ModelFile>>): Promise<string | undefined> {
  for (const [role, wanted] of Object.entries(files)) {
    if (role === CUSTOM_TEMPLATE_ROLE) continue; // has its own place
    const path = join(folder, basename(wanted.path));
    const found = await compareModelFile(path, wanted);
    if (found === 'absent') return `${path} (${role}) is absent`;
    if (found === 'different') return `${path} (${role}) differs from the worker's copy`;
  }
  return undefined;
}

/**
 * Returns a chat template that replaces the model's, as its worker puts it on the card.
 * @throws ModelFolderError if there is no such file
 */
export async function describeChatTemplate(path: string): Promise<Readonly<Record<string, ModelFile>>> {
  const file = await describeModelFile(path);
  if (file === undefined) throw new ModelFolderError(`${path}: no such file; give a Jinja file`);
  if (file.size > TEMPLATE_BYTES_MAX) throw new ModelFolderError(`${path}: more than ${TEMPLATE_BYTES_MAX} bytes`);
  return { [CUSTOM_TEMPLATE_ROLE]: file };
}

/**
 * Returns the text of the chat template that the card puts in place of the model's. Finds it by checksum: at the place
 * that the card names, else under `modelPath`, by its own name or the name of its role. Returns undefined if the card
 * names none.
 * @throws ModelFilesAbsent if it is missing or differs
 */
export async function openChatTemplate({ modelName, files, modelPath }: ModelReference): Promise<string | undefined> {
  const wanted = files[CUSTOM_TEMPLATE_ROLE];
  if (wanted === undefined) return undefined;
  const places = [
    ...(isUrl(wanted.path) ? [] : [wanted.path]),
    ...(modelPath === undefined
      ? []
      : [CUSTOM_TEMPLATE_ROLE, basename(wanted.path)].map((name) => join(modelPath, name))),
  ];
  if (wanted.size > TEMPLATE_BYTES_MAX) {
    throw new ModelFolderError(`model ${modelName}: its chat template has more than ${TEMPLATE_BYTES_MAX} bytes`);
  }
  for (const path of places) {
    if ((await compareModelFile(path, wanted)) === 'same') return readFile(path, 'utf8');
  }
  throw new ModelFilesAbsent(
    `model ${modelName}: its chat template ${wanted.path} is absent here or differs from the worker's copy; ` +
      'put it into the folder given with --model-path',
  );
}
