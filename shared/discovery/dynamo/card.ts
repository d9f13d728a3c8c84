import { fileURLToPath } from 'node:url';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { CheckedFile } from '../records.ts';

/**
 * Roles of the files of a card by their places in Dynamo's, as `field.kind`. A card names each file in an object of one
 * entry, whose name says what kind of file it is.
 */
export const FILES: Readonly<Record<string, string>> = {
  'model_info.hf_config_json': 'config.json',
  'tokenizer.hf_tokenizer_json': 'tokenizer.json',
  'tokenizer.tik_token_model': 'tiktoken.model',
  'prompt_formatter.hf_tokenizer_config_json': 'tokenizer_config.json',
  'chat_template_file.hf_chat_template': 'chat_template.jinja',
  'chat_template_file.hf_chat_template_json': 'chat_template.json',
  'gen_config.hf_generation_config_json': 'generation_config.json',
};

/** Role of a chat template that replaces the model's own. */
export const CUSTOM_TEMPLATE = 'custom_chat_template';

/** Fields of a card that hold one file each. */
const FILE_FIELDS = [...new Set(Object.keys(FILES).map((place) => place.slice(0, place.indexOf('.'))))];

/**
 * Returns a card of Dynamo as one of Stator. A field that cannot be read stays as it is, so that the reader refuses it.
 */
export function cardOf(card: UnknownRecord, files: Readonly<Record<string, CheckedFile>>): UnknownRecord {
  const { display_name, slug, source_path, architectural_max_context_length, kv_cache_block_size } = card;
  const { model_type, model_input, worker_type, lora, user_data } = card;
  const needs = card.needs ?? [];
  const runtime = withoutNulls(asRecord(card.runtime_config) ?? {});
  if (runtime.context_length === 0) delete runtime.context_length; // Dynamo's zero: the model's own length
  return withoutNulls({
    display_name,
    slug,
    source_path,
    files,
    architectural_max_context_length,
    kv_cache_block_size,
    model_type: typeof model_type === 'string' ? model_type.split(' | ').filter(Boolean) : model_type,
    model_input,
    worker_type: lowerCase(worker_type),
    needs: Array.isArray(needs) ? needs.map((all) => (Array.isArray(all) ? all.map(lowerCase) : all)) : needs,
    aliases: card.aliases ?? [],
    runtime_config: runtime,
    tensor_model_config: card.tensor_model_config,
    lora,
    user_data,
  });
}

/**
 * Returns the folder of the worker's status server from which the files of a card can be fetched, as `host:port/path`;
 * undefined if the card has paths.
 */
export function filesAtOf(files: Readonly<Record<string, CheckedFile>>): string | undefined {
  for (const { path } of Object.values(files)) {
    if (path.startsWith('http://')) return path.slice('http://'.length, path.lastIndexOf('/'));
  }
  return undefined;
}

/**
 * Returns the files of a card by role. The further files (`extra_files`) are left out: no prompt needs them, and only
 * workers with a status server list them.
 */
export function filesOf(card: UnknownRecord): Readonly<Record<string, CheckedFile>> {
  const files: Record<string, CheckedFile> = {};
  for (const field of FILE_FIELDS) {
    for (const [kind, value] of Object.entries(asRecord(card[field]) ?? {})) {
      const role = FILES[`${field}.${kind}`];
      const outer = asRecord(value);
      const file = fileOf(outer?.file ?? value);
      if (role === undefined || file === undefined) continue;
      files[outer?.is_custom === true ? CUSTOM_TEMPLATE : role] = file;
    }
  }
  return files;
}

function fileOf(value: unknown): CheckedFile | undefined {
  const file = asRecord(value);
  const path = file?.path ?? file?.url;
  if (typeof path !== 'string') return undefined;
  const checksum = String(file?.checksum ?? '');
  return {
    path: path.startsWith('file://') ? fileURLToPath(path) : path,
    checksum,
    size: Number(file?.size),
  };
}

function lowerCase(value: unknown): unknown {
  return typeof value === 'string' ? value.toLowerCase() : value;
}

export function withoutNulls(record: UnknownRecord): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}
