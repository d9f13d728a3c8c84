import { readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { createBpeTokenizer } from './bpe/tokenizer.ts';
import { asRecord } from './json.ts';
import { loadTokenizerTables } from './loader.ts';
import { brokenJson, checkFolder, readModelFiles } from './model-files.ts';
import { ModelFolderError } from './model-folder-error.ts';
import { readConfigs, toModelInfo } from './model-info.ts';
import { readSpecialTokens } from './special-tokens.ts';
import { type ChatTemplateSource, compileChatTemplate } from './template/chat-template.ts';
import { chooseTemplateSource } from './template/choose-source.ts';
import type { ChatTemplate, LoadedModel, Tokenizer } from './types.ts';

export interface LoadModelOptions {
  /** For messages. @default the folder's name */
  readonly modelName?: string | undefined;
  /** Replaces the folder's own chat template. */
  readonly chatTemplate?: string | undefined;
  /** Reads every file once more to fill `info.files`. @default false */
  readonly checksums?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Loads a Hugging Face model folder: tokenizer, chat template and what the configs say.
 * @throws ModelFolderError with one line that names the file, what is wrong and what to do
 * @example
 * const model = await loadModelFolder('/models/qwen3');
 * const ids = model.tokenizer.encode('Hello');
 */
export async function loadModelFolder(path: string, options: LoadModelOptions = {}): Promise<LoadedModel> {
  const folder = resolve(path);
  await checkFolder(folder);
  const [configs, tokenizer] = await Promise.all([readConfigs(folder), loadTokenizer(folder, options.signal)]);
  const source = options.chatTemplate ?? chooseTemplateSource(folder, configs);
  const info = toModelInfo(folder, configs);
  return {
    path: folder,
    tokenizer,
    chatTemplate: compileFor(options.modelName ?? basename(folder), source, readSpecialTokens(configs.tokenizerConfig)),
    info: options.checksums === true ? { ...info, files: await readModelFiles(folder) } : info,
  };
}

function compileFor(
  modelName: string,
  source: ChatTemplateSource | undefined,
  tokens: Parameters<typeof compileChatTemplate>[1],
): ChatTemplate | undefined {
  if (source === undefined) return undefined;
  try {
    return compileChatTemplate(source, tokens);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelFolderError(
      `chat template of model ${modelName}: not supported: ${reason}; give another one with --custom-jinja-template`,
      { cause: error },
    );
  }
}

async function loadTokenizer(folder: string, signal: AbortSignal | undefined): Promise<Tokenizer> {
  const path = join(folder, 'tokenizer.json');
  if (
    !(await stat(path).then(
      (found) => found.isFile(),
      () => false,
    ))
  )
    throw await missingTokenizer(folder);
  try {
    const scanned = await loadTokenizerTables(path, signal);
    const type = asRecord(asRecord(scanned.rest)?.model)?.type;
    return createBpeTokenizer(scanned) ?? (await loadGeneral(path, type));
  } catch (error) {
    if (error instanceof SyntaxError) throw brokenJson(path, error);
    throw error;
  }
}

/** Types that the general library covers; an absent type is told from the other fields. */
const MODEL_TYPES = new Set<unknown>(['BPE', 'Unigram', 'WordPiece', 'WordLevel', undefined]);

async function loadGeneral(path: string, type: unknown): Promise<Tokenizer> {
  const { createGeneralTokenizer } = await import('./general-tokenizer.ts');
  const json: unknown = JSON.parse(await readFile(path, 'utf8'));
  try {
    if (!MODEL_TYPES.has(type)) throw new Error(`model type ${JSON.stringify(type)}`);
    return await createGeneralTokenizer(json);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelFolderError(
      `${path}: unsupported tokenizer: ${reason.replaceAll('\n', ' ')}; use a model with a BPE, Unigram, WordPiece or WordLevel tokenizer.json`,
      { cause: error },
    );
  }
}

async function missingTokenizer(folder: string): Promise<ModelFolderError> {
  const other = ['tokenizer.model', 'tiktoken.model'];
  for (const name of other) {
    const isThere = await stat(join(folder, name)).then(
      () => true,
      () => false,
    );
    if (isThere) {
      return new ModelFolderError(`${join(folder, name)}: unsupported tokenizer file; convert it to tokenizer.json`);
    }
  }
  return new ModelFolderError(
    `${join(folder, 'tokenizer.json')}: no such file; give a Hugging Face model folder that has one`,
  );
}
