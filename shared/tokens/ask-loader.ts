import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import type { UnknownRecord } from '../records/index.ts';
import type { ScannedTokenizer } from './bpe/build-tables.ts';
import type { PreparedFile } from './bpe/prepared-tables.ts';
import type { GeneralTables } from './general/vocabulary.ts';
import type { Node } from './template/syntax.ts';

/** What the loader's thread is started for. */
export type LoaderTask = FileTask | ConfigTask | TemplateTask;

/** `tables`: take a tokenizer file apart; `general`: prepare one that is no byte-level BPE. */
export interface FileTask {
  readonly kind: 'tables' | 'general';
  readonly path: string;
  /** Where the tables are kept for the next one that asks. */
  readonly prepared: PreparedFile | undefined;
}

/** Parse a configuration file that is large. */
interface ConfigTask {
  readonly kind: 'config';
  readonly path: string;
}

/** Parse a chat template. */
interface TemplateTask {
  readonly kind: 'template';
  readonly source: string;
}

/** What the thread answers: what it was asked for, or why there is none. */
export type LoaderAnswer =
  | { readonly scanned: ScannedTokenizer }
  | { readonly general: GeneralTables }
  | { readonly nodes: readonly Node[] }
  /** Undefined when the file holds no object. */
  | { readonly config: UnknownRecord | undefined }
  | { readonly syntaxError: string }
  /** What no tokenizer in use has. */
  | { readonly unsupported: string };

/** A tokenizer.json of 30 MB takes about half a second; a thread that is silent for this long is broken. */
const LOAD_TIMEOUT_MS = 60_000;

/** Starts a thread for `task`. @param entry path of the loader's bundle */
export async function askLoader(
  entry: string,
  task: LoaderTask,
  signal?: AbortSignal,
  clock: Clock = systemClock,
): Promise<LoaderAnswer> {
  signal?.throwIfAborted();
  const thread = new Worker(entry, { workerData: task });
  try {
    const answer = new Promise<LoaderAnswer>((resolve, reject) => {
      thread.once('message', resolve);
      thread.once('error', reject);
      thread.once('exit', (code) => reject(new Error(`tokenizer loader ended with code ${code} and no answer`)));
    });
    return await withDeadline({ clock, timeoutMs: LOAD_TIMEOUT_MS, signal }, () => answer);
  } finally {
    await thread.terminate();
  }
}

/**
 * Path of the bundle `name`, which lies beside `dist/stator.js`; this code may sit in `dist/` or in `dist/chunks/`.
 * Undefined where it is missing: tests run from sources.
 */
export function findThreadEntry(name: string): string | undefined {
  if (import.meta.url.endsWith('.ts')) return undefined;
  const places = [`./${name}`, `../${name}`];
  return places.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((path) => existsSync(path));
}
