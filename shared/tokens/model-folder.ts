import { basename, join, resolve } from 'node:path';
import { reasonOf } from '../errors/index.ts';
import { asRecord } from '../records/index.ts';
import { loadChatTemplate } from './load-template.ts';
import { type LoadTokenizerOptions, loadTokenizer } from './load-tokenizer.ts';
import { checkFolder, ModelFolderError, readModelFiles } from './model-files.ts';
import { type ModelConfigs, readConfigs, readSpecialTokens, type SpecialTokens, toModelInfo } from './model-info.ts';
import type { ChatTemplateSource } from './template/chat-template.ts';
import type { ChatTemplate, LoadedModel, Tokenizer } from './types.ts';

export interface LoadModelOptions extends LoadTokenizerOptions {
  /** Name of the model in messages. @default the folder's name */
  readonly modelName?: string | undefined;
  /** Template that replaces the folder's own. */
  readonly chatTemplate?: string | undefined;
  /** Called once, with the file and the reason, when a rendering shows that the model's template is unusable. */
  readonly onHopelessTemplate?: ((message: string) => void) | undefined;
  /** Whether to read every file once more to fill `info.files`. @default false */
  readonly checksums?: boolean | undefined;
}

/**
 * Loads a Hugging Face model folder: tokenizer, chat template and the information of its configs.
 * @throws ModelFolderError with one line that names the file, what is wrong and what to do
 * @example
 * const model = await loadModelFolder('/models/qwen3');
 * const ids = model.tokenizer.encode('Hello');
 */
export async function loadModelFolder(path: string, options: LoadModelOptions = {}): Promise<LoadedModel> {
  const folder = resolve(path);
  await checkFolder(folder);
  const reading = readConfigs(folder);
  const [configs, tokenizer] = await Promise.all([reading, loadTokenizer(folder, reading, options)]);
  const [file, source] =
    options.chatTemplate === undefined ? chooseTemplateSource(folder, configs) : [undefined, options.chatTemplate];
  const name = options.modelName ?? basename(folder);
  const label = `chat template of model ${name}${file === undefined ? '' : ` (${join(folder, file)})`}`;
  const info = toModelInfo(folder, configs);
  return {
    path: folder,
    tokenizer,
    chatTemplate:
      source === undefined
        ? undefined
        : await loadFor(label, source, readSpecialTokens(configs.tokenizerConfig), options),
    info: options.checksums === true ? { ...info, files: await readModelFiles(folder) } : info,
  };
}

/**
 * Loads only the tokenizer of a Hugging Face model folder.
 * @throws ModelFolderError as `loadModelFolder`, except for the chat template, which is not read
 */
export async function loadFolderTokenizer(path: string): Promise<Tokenizer> {
  const folder = resolve(path);
  await checkFolder(folder);
  const reading = readConfigs(folder);
  const [tokenizer] = await Promise.all([loadTokenizer(folder, reading, {}), reading]);
  return tokenizer;
}

const INSTEAD = 'give another one with --custom-jinja-template';

async function loadFor(
  label: string,
  source: ChatTemplateSource,
  tokens: SpecialTokens,
  { onHopelessTemplate: onHopelessFile, signal }: LoadModelOptions,
): Promise<ChatTemplate> {
  const onHopeless = (reason: string): void => onHopelessFile?.(`${label}: ${reason}; ${INSTEAD}`);
  try {
    return await loadChatTemplate(source, tokens, { onHopeless, signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw new ModelFolderError(`${label}: not supported: ${reasonOf(error)}; ${INSTEAD}`, { cause: error });
  }
}

/** Returns the chat template of a folder: chat_template.jinja, then chat_template.json, then tokenizer_config.json. */
function chooseTemplateSource(
  folder: string,
  configs: ModelConfigs,
): readonly [file: string | undefined, source: ChatTemplateSource | undefined] {
  if (configs.templateText !== undefined) return ['chat_template.jinja', configs.templateText];
  const places: readonly (readonly [string, unknown])[] = [
    ['chat_template.json', configs.templateJson?.chat_template],
    ['tokenizer_config.json', configs.tokenizerConfig.chat_template],
  ];
  for (const [file, value] of places) {
    if (value === undefined || value === null) continue;
    const source = readSource(value);
    if (source !== undefined) return [file, source];
    throw new ModelFolderError(
      `${join(folder, file)}: chat_template is neither a text nor a list of named texts with a 'default'`,
    );
  }
  return [undefined, undefined];
}

/** Reads a template: a text, or a list of `{"name": ..., "template": ...}` or of `{<name>: <template>}`. */
function readSource(value: unknown): ChatTemplateSource | undefined {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return undefined;
  const named = new Map<string, unknown>();
  for (const entry of value.map(asRecord)) {
    if (entry === undefined) return undefined;
    if (typeof entry.name === 'string' && entry.template !== undefined) named.set(entry.name, entry.template);
    else for (const [name, template] of Object.entries(entry)) named.set(name, template);
  }
  const fallback = named.get('default');
  const toolUse = named.get('tool_use') ?? fallback;
  return typeof fallback === 'string' && typeof toolUse === 'string' ? { default: fallback, toolUse } : undefined;
}
