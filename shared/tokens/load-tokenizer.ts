import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asRecord } from '../records/index.ts';
import { createBpeTokenizer } from './bpe/tokenizer.ts';
import { loadTokenizerTables } from './loader.ts';
import { brokenJson } from './model-files.ts';
import { ModelFolderError } from './model-folder-error.ts';
import type { ModelConfigs } from './model-info.ts';
import { completeTiktoken, hasTiktokenPattern, TIKTOKEN_MODEL_TYPES } from './tiktoken-config.ts';
import { findTokenizerFile, kindOfTokenizer } from './tokenizer-file.ts';
import type { Tokenizer } from './types.ts';

export interface LoadTokenizerOptions {
  readonly signal?: AbortSignal | undefined;
  /** Told of a file that only the general library covers, before that is loaded; what it throws is the result. */
  readonly onUncovered?: ((path: string) => void) | undefined;
}

/**
 * Loads the tokenizer of a model folder.
 * @param reading the folder's small files, of which only a tiktoken file needs something
 * @throws ModelFolderError when there is none, or one that cannot be read
 */
export async function loadTokenizer(
  folder: string,
  reading: Promise<ModelConfigs>,
  options: LoadTokenizerOptions,
): Promise<Tokenizer> {
  const name = await findTokenizerFile(folder);
  const path = join(folder, name ?? 'tokenizer.json');
  if (name === undefined) {
    throw new ModelFolderError(`${path}: no such file; give a Hugging Face model folder that has one`);
  }
  switch (kindOfTokenizer(path)) {
    case 'json':
      return loadJson(path, options);
    case 'tiktoken':
      return loadTiktoken(path, await reading, options.signal);
    case undefined:
      throw new ModelFolderError(
        `${path}: Unsupported tokenizer file type: ${name.slice(name.lastIndexOf('.'))}; convert it to tokenizer.json`,
      );
  }
}

async function loadJson(path: string, { signal, onUncovered }: LoadTokenizerOptions): Promise<Tokenizer> {
  try {
    const scanned = await loadTokenizerTables(path, signal);
    const type = asRecord(asRecord(scanned.rest)?.model)?.type;
    const own = createBpeTokenizer(scanned);
    if (own !== undefined) return own;
    onUncovered?.(path);
    return await loadGeneral(path, type);
  } catch (error) {
    if (error instanceof SyntaxError) throw brokenJson(path, error);
    throw error;
  }
}

async function loadTiktoken(
  path: string,
  { config, tokenizerConfig }: ModelConfigs,
  signal: AbortSignal | undefined,
): Promise<Tokenizer> {
  const modelType = typeof config.model_type === 'string' ? config.model_type : undefined;
  if (!hasTiktokenPattern(modelType)) {
    throw new ModelFolderError(
      `${path}: unsupported tokenizer: the words of model type ${JSON.stringify(modelType ?? null)} are known only for ` +
        `${TIKTOKEN_MODEL_TYPES.join(', ')}; convert it to tokenizer.json`,
    );
  }
  try {
    const { tables } = await loadTokenizerTables(path, signal);
    const tokenizer = tables && createBpeTokenizer(completeTiktoken(tables, modelType, tokenizerConfig));
    if (tokenizer === undefined) throw new Error(`${path}: its own configuration is not understood`);
    return tokenizer;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ModelFolderError(`${path}: broken tiktoken file (${error.message}); download it again`, { cause: error });
  }
}

/** Types that the general library covers; an absent type is told from the other fields. */
const MODEL_TYPES = new Set<unknown>(['BPE', 'Unigram', 'WordPiece', 'WordLevel', undefined]);

async function loadGeneral(path: string, type: unknown): Promise<Tokenizer> {
  const { createGeneralTokenizer } = await import('./general-tokenizer.ts');
  const json: unknown = JSON.parse(await readFile(path, 'utf8'));
  try {
    if (!MODEL_TYPES.has(type)) throw new Error(`model type ${JSON.stringify(type)}`);
    return await createGeneralTokenizer(json, path);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelFolderError(
      `${path}: unsupported tokenizer: ${reason.replaceAll('\n', ' ')}; use a model with a BPE, Unigram, WordPiece or WordLevel tokenizer.json`,
      { cause: error },
    );
  }
}
