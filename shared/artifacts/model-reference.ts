import type { ModelFile } from '../tokens/index.ts';

/** Role on the card of a chat template that replaces the model's own (`--custom-jinja-template`). */
export const CUSTOM_TEMPLATE_ROLE = 'custom_chat_template';

/** Which model folder to open: the files that a card names, and optionally where this process has its own copy. */
export interface ModelReference {
  /** For messages. */
  readonly modelName: string;
  /** By role, as on the card. */
  readonly files: Readonly<Record<string, ModelFile>>;
  /** `--model-path` of this process: looked into when a file is not where the worker has it. */
  readonly modelPath?: string | undefined;
}
