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

/** Task that the loader's thread is started for. */
export type LoaderTask = FileTask | ConfigTask | TemplateTask;

/**
 * Task of reading a tokenizer file. `tables` reads its BPE tables; `general` prepares one that is not byte-level BPE.
 */
export interface FileTask {
  readonly kind: 'tables' | 'general';
  readonly path: string;
  /** File that keeps the tables for later starts. */
  readonly prepared: PreparedFile | undefined;
}

/** Task of parsing a large configuration file. */
interface ConfigTask {
  readonly kind: 'config';
  readonly path: string;
}

/** Task of parsing a chat template. */
interface TemplateTask {
  readonly kind: 'template';
  readonly source: string;
}

/** Answer of the thread: the result of its task, or the reason why there is none. */
export type LoaderAnswer =
  | { readonly scanned: ScannedTokenizer }
  | { readonly general: GeneralTables }
  | { readonly nodes: readonly Node[] }
  /** Undefined when the file does not hold an object. */
  | { readonly config: UnknownRecord | undefined }
  | { readonly syntaxError: string }
  /** Feature that the tokenizer uses and that is not supported. */
  | { readonly unsupported: string };

/** Time after which a silent thread counts as broken. A tokenizer.json of 30 MB takes about half a second. */
const LOAD_TIMEOUT_MS = 60_000;

/** Starts a thread for `task` and returns its answer. @param entry path of the loader's bundle */
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
 * Returns the path of the bundle `name`, which lies beside `dist/stator.js`; this code may run from `dist/` or from
 * `dist/chunks/`. Returns undefined if the bundle is missing, as in tests, which run from sources.
 */
export function findThreadEntry(name: string): string | undefined {
  if (import.meta.url.endsWith('.ts')) return undefined;
  const places = [`./${name}`, `../${name}`];
  return places.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((path) => existsSync(path));
}
