import { resolve } from 'node:path';
import { ConfigError } from '../../config/index.ts';
import { findTokenizerFile } from '../../tokens/index.ts';

/** @throws ConfigError for a folder (`--model-path`) without a tokenizer */
export async function requireTokenizer(folder: string): Promise<void> {
  if ((await findTokenizerFile(folder)) !== undefined) return;
  throw new ConfigError([
    `--model-path ${folder}: the folder holds no tokenizer; give one with tokenizer.json, or leave the flag out: workers give theirs`,
  ]);
}

/**
 * The folder that an operator gave this process (`--model-path`). It serves one model as it is, where that model's own files are
 * not to be had: with the tokenizer of another one every answer would be wrong.
 */
export class OwnFolder {
  readonly path: string | undefined;
  #servedBy: string | undefined;

  constructor(path: string | undefined) {
    this.path = path === undefined ? undefined : resolve(path);
  }

  /** A model was opened out of `folder`. */
  opened(model: string, folder: string): void {
    if (folder === this.path) this.#servedBy ??= model;
  }

  /** The folder for a model that has no other; undefined where there is none, or it is another model's. */
  insteadFor(model: string): string | undefined {
    return this.#servedBy === undefined || this.#servedBy === model ? this.path : undefined;
  }
}
