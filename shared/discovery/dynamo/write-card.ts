import { parseHubModel } from '../../config/index.ts';
import type { CheckedFile, ModelCard, RuntimeConfig } from '../records.ts';
import { CUSTOM_TEMPLATE, FILES } from './card.ts';

/** Fields of `runtime_config` that Dynamo does not have. */
const OWN: ReadonlySet<string> = new Set([
  'default_thinking_mode',
  'sampling_defaults',
  'route_to_encoder',
  'media_chats',
] satisfies (keyof RuntimeConfig)[]);

/**
 * Returns a card as Dynamo's frontends read it. Its files need checksums of BLAKE3, because Dynamo has no others. What
 * only Stator knows (defaults of sampling, media in chats) is left out.
 */
export function toDynamoCard(card: ModelCard): Readonly<Record<string, unknown>> {
  const { display_name, slug, source_path, architectural_max_context_length, kv_cache_block_size } = card;
  const { model_type, model_input, worker_type, needs, aliases, runtime_config: runtime, lora, user_data } = card;
  return {
    display_name,
    slug,
    // Dynamo knows no revisions there. Its frontends download from the hub what they find nowhere else.
    source_path: source_path && (parseHubModel(source_path)?.id ?? source_path),
    ...filesOf(card.files),
    architectural_max_context_length,
    context_length: runtime.context_length ?? 0,
    kv_cache_block_size,
    migration_limit: 0, // a frontend's setting; older ones read it here
    model_type: model_type.join(' | '),
    model_input,
    worker_type,
    needs,
    aliases: aliases.length === 0 ? undefined : aliases,
    lora,
    user_data,
    tensor_model_config: card.tensor_model_config,
    runtime_config: Object.fromEntries(Object.entries(runtime).filter(([name]) => !OWN.has(name))),
  };
}

function filesOf(files: ModelCard['files']): Readonly<Record<string, unknown>> {
  const fields: Record<string, unknown> = {};
  for (const [place, role] of Object.entries(FILES)) {
    const file = files[role];
    if (file === undefined) continue;
    const [field = '', kind = ''] = place.split('.');
    fields[field] = {
      [kind]: kind === 'hf_chat_template' ? { is_custom: false, file: described(file) } : described(file),
    };
  }
  const custom = files[CUSTOM_TEMPLATE];
  if (custom !== undefined) {
    fields.chat_template_file = { hf_chat_template: { is_custom: true, file: described(custom) } };
  }
  return fields;
}

function described({ path, checksum, blake3 = checksum, size }: CheckedFile): unknown {
  return { path, checksum: blake3, size };
}
