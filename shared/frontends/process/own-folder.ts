import { resolve } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { ConfigError, type EdgeSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { findTokenizerFile } from '../../tokens/index.ts';

/** Tools of the process with which a model is downloaded. */
interface FolderContext {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns `settings` with the folder of `--model-path`, which may name a model on the hub: its files are then
 * downloaded into the cache of the hub.
 * @throws ConfigError if the folder has no tokenizer; Error with one line if the model cannot be downloaded
 */
export async function withOwnFolder<S extends EdgeSettings>(settings: S, context: FolderContext): Promise<S> {
  const { modelPath: given } = settings;
  if (given === undefined) return settings;
  const { openModel } = await import('../../artifacts/index.ts');
  const folder = await openModel(given, { settings, ...context }).catch((thrown) => {
    context.signal?.throwIfAborted();
    throw new Error(`--model-path ${given}: ${reasonOf(thrown)}`, { cause: thrown });
  });
  await requireTokenizer(given, folder ?? given);
  return { ...settings, modelPath: folder };
}

/** @throws ConfigError if the folder has no tokenizer */
async function requireTokenizer(name: string, folder: string): Promise<void> {
  if ((await findTokenizerFile(folder)) !== undefined) return;
  throw new ConfigError([
    `--model-path ${name}: the folder holds no tokenizer; give one with tokenizer.json, or leave the flag out: workers give theirs`,
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
