import { join } from 'node:path';
import { asRecord, type UnknownRecord } from '../records/index.ts';
import type { ScannedTokenizer } from './bpe/build-tables.ts';
import type { PreparedFile } from './bpe/prepared-tables.ts';
import type { BpeTables } from './bpe/tables.ts';
import { createBpeTokenizer } from './bpe/tokenizer.ts';
import { loadGeneral, loadTokenizerTables } from './loader.ts';
import { brokenJson, findTokenizerFile, kindOfTokenizer, ModelFolderError } from './model-files.ts';
import type { ModelConfigs } from './model-info.ts';
import { KIMI_PATTERN } from './patterns/known-patterns.ts';
import { UnsupportedTokenizer } from './tokenizer-shape.ts';
import type { Tokenizer } from './types.ts';

/** Pattern of words by the `model_type` of config.json; a tiktoken file does not include it. */
const PATTERNS: ReadonlyMap<string | undefined, string> = new Map(
  ['kimi', 'kimi_k2', 'kimi_k25', 'deepseek_v3'].map((modelType) => [modelType, KIMI_PATTERN]),
);

/** Number of ids after the last rank that are special tokens, named or not. */
const RESERVED_IDS = 256;

export interface LoadTokenizerOptions {
  readonly signal?: AbortSignal | undefined;
  /** File that keeps prepared tables, with the checksum of the tokenizer file that names them. @default none */
  readonly prepared?: PreparedFile | undefined;
  /**
   * Called with a file that only the general library covers, before the library is loaded. If it throws, loading fails
   * with its error.
   */
  readonly onUncovered?: ((path: string) => void) | undefined;
}

/**
 * Loads the tokenizer of a model folder.
 * @param reading the folder's small files; only a tiktoken file needs some of their content
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
      return loadTiktoken(path, await reading, options);
    case undefined:
      throw new ModelFolderError(
        `${path}: Unsupported tokenizer file type: ${name.slice(name.lastIndexOf('.'))}; convert it to tokenizer.json`,
      );
  }
}

async function loadJson(path: string, options: LoadTokenizerOptions): Promise<Tokenizer> {
  const { prepared, signal, onUncovered } = options;
  try {
    const scanned = await loadTokenizerTables(path, prepared, signal);
    const own = createBpeTokenizer(scanned, path);
    if (own !== undefined) return own;
    onUncovered?.(path);
    return await loadGeneral(path, signal);
  } catch (error) {
    if (error instanceof SyntaxError) throw brokenJson(path, error);
    if (error instanceof UnsupportedTokenizer) {
      throw new ModelFolderError(`${path}: unsupported tokenizer: ${error.message}`, { cause: error });
    }
    throw error;
  }
}

async function loadTiktoken(
  path: string,
  { config, tokenizerConfig }: ModelConfigs,
  { prepared, signal }: LoadTokenizerOptions,
): Promise<Tokenizer> {
  const modelType = typeof config.model_type === 'string' ? config.model_type : undefined;
  if (!PATTERNS.has(modelType)) {
    throw new ModelFolderError(
      `${path}: unsupported tokenizer: the words of model type ${JSON.stringify(modelType ?? null)} are known only for ` +
        `${[...PATTERNS.keys()].join(', ')}; convert it to tokenizer.json`,
    );
  }
  try {
    const { tables } = await loadTokenizerTables(path, prepared, signal);
    const tokenizer = tables && createBpeTokenizer(completeTiktoken(tables, modelType, tokenizerConfig), path);
    if (tokenizer === undefined) throw new Error(`${path}: its own configuration is not understood`);
    return tokenizer;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ModelFolderError(`${path}: broken tiktoken file (${error.message}); download it again`, { cause: error });
  }
}

/**
 * Completes the tables of a tiktoken file with everything else that a tokenizer.json has: words from `model_type`,
 * special tokens from tokenizer_config.json's `added_tokens_decoder`.
 * @throws SyntaxError when a special token takes the id of a rank
 */
export function completeTiktoken(
  tables: BpeTables,
  modelType: string | undefined,
  tokenizerConfig: UnknownRecord,
): ScannedTokenizer {
  const isolated = { type: 'Split', pattern: { Regex: PATTERNS.get(modelType) }, behavior: 'Isolated', invert: false };
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
  const rest = {
    model: { type: 'BPE', ignore_merges: true }, // a word that is a token as a whole is that token, whatever its parts
    pre_tokenizer: { type: 'Sequence', pretokenizers: [isolated, byteLevel] },
    decoder: byteLevel,
    added_tokens: specialTokens(tables.flags.length, asRecord(tokenizerConfig.added_tokens_decoder) ?? {}),
  };
  return { rest, tables };
}

/** Lists the special tokens. @param firstId the id after the highest rank */
function specialTokens(firstId: number, decoder: UnknownRecord): readonly UnknownRecord[] {
  const named = new Map<number, UnknownRecord>();
  for (const [key, entry] of Object.entries(decoder)) {
    const id = Number(key);
    if (id < firstId) throw new SyntaxError(`special token ${key} of tokenizer_config.json takes the id of a rank`);
    const { content, special = true } = asRecord(entry) ?? {};
    named.set(id, { id, content, special, normalized: false });
  }
  for (let id = firstId; id < firstId + RESERVED_IDS; id++) {
    if (!named.has(id)) named.set(id, { id, content: `<|reserved_token_${id}|>`, special: true, normalized: false });
  }
  return [...named.values()];
}
