import { join } from 'node:path';
import { asRecord } from '../../records/index.ts';
import { ModelFolderError } from '../model-files.ts';
import type { ModelConfigs } from '../model-info.ts';
import type { ChatTemplateSource } from './chat-template.ts';

/** The chat template of a folder: chat_template.jinja, then chat_template.json, then tokenizer_config.json. */
export function chooseTemplateSource(folder: string, configs: ModelConfigs): ChatTemplateSource | undefined {
  if (configs.templateText !== undefined) return configs.templateText;
  const places: readonly (readonly [string, unknown])[] = [
    ['chat_template.json', configs.templateJson?.chat_template],
    ['tokenizer_config.json', configs.tokenizerConfig.chat_template],
  ];
  for (const [file, value] of places) {
    if (value === undefined || value === null) continue;
    const source = readSource(value);
    if (source !== undefined) return source;
    throw new ModelFolderError(
      `${join(folder, file)}: chat_template is neither a text nor a list of named texts with a 'default'`,
    );
  }
  return undefined;
}

/** A text, or a list of `{"name": ..., "template": ...}` or of `{<name>: <template>}`. */
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
