import { join, resolve } from 'node:path';
import { asRecord, type UnknownRecord } from '../records/index.ts';
import { readDefaultSampling } from './default-sampling.ts';
import { checkFolder, ModelFolderError, readJsonObject, readModelFiles, readText } from './model-files.ts';
import type { DefaultSampling, ModelInfo } from './types.ts';

/** Small files of a model folder, parsed. */
export interface ModelConfigs {
  readonly config: UnknownRecord;
  readonly tokenizerConfig: UnknownRecord;
  readonly generationConfig: UnknownRecord;
  /** Content of chat_template.jinja. */
  readonly templateText: string | undefined;
  /** Content of chat_template.json. */
  readonly templateJson: UnknownRecord | undefined;
}

const GENERATION_CONFIG = 'generation_config.json';

export interface ReadModelInfoOptions {
  /** Whether to read every file once to compute `files`. @default true */
  readonly checksums?: boolean;
}

/**
 * Reads the information in a model folder without loading its tokenizer, for workers, which publish it as their card.
 * @throws ModelFolderError when the folder is missing or a file is broken
 */
export async function readModelInfo(path: string, options: ReadModelInfoOptions = {}): Promise<ModelInfo> {
  const folder = resolve(path);
  await checkFolder(folder);
  const configs = await readConfigs(folder);
  const info = toModelInfo(folder, configs);
  return options.checksums === false ? info : { ...info, files: await readModelFiles(folder) };
}

/**
 * Reads the sampling defaults from the generation_config.json of a folder other than the model's.
 * @throws ModelFolderError when the folder has none, or a broken one
 */
export async function readFolderSampling(folder: string): Promise<DefaultSampling> {
  const path = join(folder, GENERATION_CONFIG);
  const config = await readJsonObject(folder, GENERATION_CONFIG);
  if (config === undefined) throw new ModelFolderError(`${path}: no such file`);
  return readDefaultSampling(config, path);
}

export async function readConfigs(folder: string): Promise<ModelConfigs> {
  const [config, tokenizerConfig, generationConfig, templateText, templateJson] = await Promise.all([
    readJsonObject(folder, 'config.json'),
    readJsonObject(folder, 'tokenizer_config.json'),
    readJsonObject(folder, GENERATION_CONFIG),
    readText(folder, 'chat_template.jinja'),
    readJsonObject(folder, 'chat_template.json'),
  ]);
  return {
    config: config ?? {},
    tokenizerConfig: tokenizerConfig ?? {},
    generationConfig: generationConfig ?? {},
    templateText,
    templateJson,
  };
}

/** Returns the model's information; leaves `files` empty. */
export function toModelInfo(folder: string, configs: ModelConfigs): ModelInfo {
  const { config, generationConfig, tokenizerConfig } = configs;
  const textConfig = asRecord(config.text_config) ?? {};
  const { architectures } = config;
  return {
    path: folder,
    modelType: typeof config.model_type === 'string' ? config.model_type : undefined,
    architectures: Array.isArray(architectures) ? architectures.map(String) : [],
    contextLength: contextLengthOf(folder, configs),
    eosTokenIds: eosTokenIdsOf(configs),
    bosTokenId: firstId(
      generationConfig.bos_token_id,
      config.bos_token_id,
      textConfig.bos_token_id,
      namedId(tokenizerConfig, 'bos_token'),
    ),
    vocabSize: firstId(config.vocab_size, textConfig.vocab_size),
    defaultSampling: readDefaultSampling(generationConfig, join(folder, GENERATION_CONFIG)),
    files: {},
  };
}

/**
 * Returns the context length from the first of three places that has one. 0 counts as absent; a malformed value is an
 * error.
 */
function contextLengthOf(folder: string, configs: ModelConfigs): number | undefined {
  const places: readonly (readonly [string, string, unknown])[] = [
    ['config.json', 'max_position_embeddings', configs.config.max_position_embeddings],
    [
      'config.json',
      'text_config.max_position_embeddings',
      asRecord(configs.config.text_config)?.max_position_embeddings,
    ],
    ['tokenizer_config.json', 'model_max_length', configs.tokenizerConfig.model_max_length],
  ];
  for (const [file, name, value] of places) {
    if (!hasValue(value) || value === 0) continue;
    // Transformers writes 1e30 for "no limit".
    if (typeof value === 'number' && name === 'model_max_length' && value > 0xffff_ffff) continue;
    if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 0xffff_ffff) return value;
    throw new ModelFolderError(`${join(folder, file)}: ${name} is ${JSON.stringify(value)}; write a positive integer`);
  }
  return undefined;
}

/** Returns the end tokens. generation_config.json wins over config.json, which wins over the tokenizer's eos_token. */
function eosTokenIdsOf({ config, generationConfig, tokenizerConfig }: ModelConfigs): readonly number[] {
  const textConfig = asRecord(config.text_config) ?? {};
  for (const value of [generationConfig.eos_token_id, config.eos_token_id, textConfig.eos_token_id]) {
    const ids = (Array.isArray(value) ? value : [value]).filter(isTokenId);
    if (ids.length > 0) return [...new Set(ids)];
  }
  const id = namedId(tokenizerConfig, 'eos_token');
  return id === undefined ? [] : [id];
}

/** Returns the id of a token that tokenizer_config.json names, found among its own added tokens. */
function namedId(tokenizerConfig: UnknownRecord, name: string): number | undefined {
  const text = tokenText(tokenizerConfig[name]);
  if (text === undefined) return undefined;
  for (const [id, entry] of Object.entries(asRecord(tokenizerConfig.added_tokens_decoder) ?? {})) {
    if (asRecord(entry)?.content === text) return Number(id);
  }
  return undefined;
}

function firstId(...values: readonly unknown[]): number | undefined {
  return values.find(isTokenId);
}

function isTokenId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

function hasValue(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Special tokens that a template may write. */
const SPECIAL_TOKENS = ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const;

/** Texts of the special tokens; empty for a token that the model lacks. */
export type SpecialTokens = Readonly<Record<(typeof SPECIAL_TOKENS)[number], string>>;

/** Returns the text of a token, which tokenizer_config.json writes as a string or as an object with `content`. */
function tokenText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const content = asRecord(value)?.content;
  return typeof content === 'string' ? content : undefined;
}

/** Returns the texts of the special tokens. @param config tokenizer_config.json */
export function readSpecialTokens(config: UnknownRecord): SpecialTokens {
  const texts = SPECIAL_TOKENS.map((name) => [name, tokenText(config[name]) ?? ''] as const);
  return Object.fromEntries(texts) as SpecialTokens; // the list has every name
}
