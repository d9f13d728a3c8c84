import { resolve } from 'node:path';
import { ConfigError } from '../../config/index.ts';
import { findTokenizerFile } from '../../tokens/index.ts';

/** Checks that a folder (`--model-path`) has a tokenizer. @throws ConfigError if it has none */
export async function requireTokenizer(folder: string): Promise<void> {
  if ((await findTokenizerFile(folder)) !== undefined) return;
  throw new ConfigError([
    `--model-path ${folder}: the folder holds no tokenizer; give one with tokenizer.json, or leave the flag out: workers give theirs`,
  ]);
}

/**
 * The folder that an operator gave this process (`--model-path`). It serves one model whose own files are not
 * available. A second model never gets it, because the tokenizer of another model would make every answer wrong.
 */
export class OwnFolder {
  readonly path: string | undefined;
  #servedBy: string | undefined;

  constructor(path: string | undefined) {
    this.path = path === undefined ? undefined : resolve(path);
  }

  /** Takes note that a model was opened from `folder`. */
  opened(model: string, folder: string): void {
    if (folder === this.path) this.#servedBy ??= model;
  }

  /**
   * Returns the folder for a model that has no other. Returns undefined if there is no folder, or another model uses
   * it.
   */
  insteadFor(model: string): string | undefined {
    return this.#servedBy === undefined || this.#servedBy === model ? this.path : undefined;
  }
}
