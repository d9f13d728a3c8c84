import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { compareModelFile, describeModelFile, type ModelFile, ModelFolderError } from '../tokens/index.ts';
import { CUSTOM_TEMPLATE_ROLE, type ModelReference } from './model-reference.ts';

/** A template is refused above this. */
const TEMPLATE_BYTES_MAX = 16 * 1024 * 1024;

/**
 * A chat template that replaces the model's, as its worker puts it on the card.
 * @throws ModelFolderError when there is no such file
 */
export async function describeChatTemplate(path: string): Promise<Readonly<Record<string, ModelFile>>> {
  const file = await describeModelFile(path);
  if (file === undefined) throw new ModelFolderError(`${path}: no such file; give a Jinja file`);
  if (file.size > TEMPLATE_BYTES_MAX) throw new ModelFolderError(`${path}: more than ${TEMPLATE_BYTES_MAX} bytes`);
  return { [CUSTOM_TEMPLATE_ROLE]: file };
}

/**
 * Text of the chat template that the card puts in place of the model's, found by checksum: where the card says it is, else
 * under `modelPath`. Undefined when the card names none.
 * @throws ModelFolderError when it is absent or differs
 */
export async function openChatTemplate({ modelName, files, modelPath }: ModelReference): Promise<string | undefined> {
  const wanted = files[CUSTOM_TEMPLATE_ROLE];
  if (wanted === undefined) return undefined;
  const places = [wanted.path, ...(modelPath === undefined ? [] : [join(modelPath, basename(wanted.path))])];
  if (wanted.size > TEMPLATE_BYTES_MAX) {
    throw new ModelFolderError(`model ${modelName}: its chat template has more than ${TEMPLATE_BYTES_MAX} bytes`);
  }
  for (const path of places) {
    if ((await compareModelFile(path, wanted)) === 'same') return readFile(path, 'utf8');
  }
  throw new ModelFolderError(
    `model ${modelName}: its chat template ${wanted.path} is absent here or differs from the worker's copy; ` +
      'put it into the folder given with --model-path',
  );
}
