import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { CheckedFile } from '../records.ts';

/**
 * Roles of the files of a card by their places in Dynamo's, as `field.kind`. A card names each file in an object of one
 * entry, whose name says what kind of file it is.
 */
const FILES: Readonly<Record<string, string>> = {
  'model_info.hf_config_json': 'config.json',
  'tokenizer.hf_tokenizer_json': 'tokenizer.json',
  'tokenizer.tik_token_model': 'tiktoken.model',
  'prompt_formatter.hf_tokenizer_config_json': 'tokenizer_config.json',
  'chat_template_file.hf_chat_template': 'chat_template.jinja',
  'chat_template_file.hf_chat_template_json': 'chat_template.json',
  'gen_config.hf_generation_config_json': 'generation_config.json',
};

/** Fields of a card that hold one file each. */
const FILE_FIELDS = [...new Set(Object.keys(FILES).map((place) => place.slice(0, place.indexOf('.'))))];

/**
 * Returns the text of a record of Dynamo's (1.4 to 1.6) as the same record of Stator's. Ids come from the key, because
 * they are numbers above 2^53 in the record. Returns another text as it is, so that the reader reports it.
 *
 * @param key path below the bucket: `{namespace}/{component}/{endpoint}/{id}[/{adapter}]`
 */
export function fromDynamo(text: string, key: string): string {
  try {
    const record = converted(asRecord(JSON.parse(text)) ?? {}, key);
    return record === undefined ? text : JSON.stringify(record);
  } catch {
    return text; // not JSON, or a key that is not encoded: another program wrote it
  }
}

function converted(record: UnknownRecord, key: string): UnknownRecord | undefined {
  const [, , , instance_id, suffix] = key.split('/');
  const { type, namespace, component, endpoint } = record;
  const common = { type, namespace, component, endpoint, instance_id, wire: 'dynamo' };
  if (type === 'Endpoint') {
    const { device_type, request_plane_codec } = record;
    return { ...common, transport: transportOf(record.transport), device_type, request_plane_codec };
  }
  const card = asRecord(record.card_json);
  if (type !== 'Model' || card === undefined) return undefined;
  const adapter = suffix === undefined ? {} : { model_suffix: decodeURIComponent(suffix) };
  return { ...common, card: cardOf(card), ...adapter };
}

/** Names the kind of the address as Dynamo's: `dynamo_tcp`, `dynamo_nats_tcp`. */
function transportOf(transport: unknown): UnknownRecord {
  return Object.fromEntries(Object.entries(asRecord(transport) ?? {}).map(([kind, at]) => [`dynamo_${kind}`, at]));
}

function cardOf(card: UnknownRecord): UnknownRecord {
  const { display_name, slug, source_path, architectural_max_context_length, kv_cache_block_size } = card;
  const { model_type, model_input, worker_type, needs = [], aliases = [], lora, user_data } = card;
  const runtime = withoutNulls(asRecord(card.runtime_config) ?? {});
  if (runtime.context_length === 0) delete runtime.context_length; // Dynamo's zero: the model's own length
  return withoutNulls({
    display_name,
    slug,
    source_path,
    files: filesOf(card),
    architectural_max_context_length,
    kv_cache_block_size,
    model_type: typeof model_type === 'string' ? model_type.split(' | ').filter(Boolean) : model_type,
    model_input,
    worker_type: lowerCase(worker_type),
    needs: Array.isArray(needs) ? needs.map((all) => (Array.isArray(all) ? all.map(lowerCase) : all)) : needs,
    aliases,
    runtime_config: runtime,
    tensor_model_config: card.tensor_model_config,
    lora,
    user_data,
  });
}

function filesOf(card: UnknownRecord): Readonly<Record<string, CheckedFile>> {
  const files: Record<string, CheckedFile> = {};
  for (const field of FILE_FIELDS) {
    for (const [kind, value] of Object.entries(asRecord(card[field]) ?? {})) {
      const role = FILES[`${field}.${kind}`];
      const file = asRecord(asRecord(value)?.file ?? value);
      const path = file?.path ?? file?.url;
      if (role === undefined || typeof path !== 'string') continue;
      files[role] = { path, checksum: String(file?.checksum ?? ''), size: Number(file?.size ?? 0) };
    }
  }
  return files;
}

function lowerCase(value: unknown): unknown {
  return typeof value === 'string' ? value.toLowerCase() : value;
}

function withoutNulls(record: UnknownRecord): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}
