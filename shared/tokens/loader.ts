import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import { type ScannedTokenizer, scanTokenizerJson } from './bpe/build-tables.ts';
import { type PreparedFile, readPrepared, writePrepared } from './bpe/prepared-tables.ts';
import { scanTiktoken } from './bpe/tiktoken.ts';
import { kindOfTokenizer } from './model-files.ts';
import { checkTokenizer, UnsupportedTokenizer } from './tokenizer-shape.ts';

/** What the thread is started for. */
export interface LoaderTask {
  readonly path: string;
  /** Where the tables are kept for the next one that asks. */
  readonly prepared: PreparedFile | undefined;
}

/** What the thread answers: the tables, or why there are none. */
export type LoaderAnswer =
  | { readonly scanned: ScannedTokenizer }
  | { readonly syntaxError: string }
  /** What no tokenizer in use has. */
  | { readonly unsupported: string };

/** Takes this thread about ten milliseconds; to start another one costs 50 ms of CPU. */
const SMALL_BYTES_MAX = 512 * 1024;
/** A tokenizer.json of 30 MB takes about half a second; a thread that is silent for this long is broken. */
const LOAD_TIMEOUT_MS = 60_000;

/**
 * The tables of a tokenizer file: those that are kept in `prepared`, else read and tabulated in a thread of its own, so
 * that neither its parsing stops the process nor its garbage stays in it, and kept there. Runs in this thread where the
 * file is small, or the thread's bundle missing (tests run from sources).
 * @throws SyntaxError when the file is broken, UnsupportedTokenizer, or the error of reading it
 */
export async function loadTokenizerTables(
  path: string,
  prepared?: PreparedFile,
  signal?: AbortSignal,
): Promise<ScannedTokenizer> {
  const kept = prepared && (await readPrepared(prepared));
  if (kept !== undefined) return kept;
  const { size } = await stat(path);
  const entry = size > SMALL_BYTES_MAX ? findThreadEntry('tokenizer-loader.js') : undefined;
  if (entry === undefined) return scanAndKeep({ path, prepared }, await readFile(path, { signal }));
  const answer = await askThread(entry, { path, prepared }, signal);
  if ('syntaxError' in answer) throw new SyntaxError(answer.syntaxError);
  if ('unsupported' in answer) throw new UnsupportedTokenizer(answer.unsupported);
  return answer.scanned;
}

async function askThread(
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
 * Takes a tokenizer file apart, and keeps its tables for the next one; of a tiktoken file there are only tables.
 * @throws SyntaxError when it is broken, UnsupportedTokenizer for what no tokenizer in use has
 */
export function scanAndKeep({ path, prepared }: LoaderTask, file: Uint8Array): ScannedTokenizer {
  const isJson = kindOfTokenizer(path) === 'json';
  const scanned = isJson ? scanChecked(file) : { rest: undefined, tables: scanTiktoken(file) };
  try {
    if (prepared !== undefined) writePrepared(prepared, scanned);
  } catch {
    // A full or missing folder costs the next one that asks half a second, and this one nothing.
  }
  return scanned;
}

function scanChecked(file: Uint8Array): ScannedTokenizer {
  const scanned = scanTokenizerJson(file);
  checkTokenizer(scanned.rest);
  return scanned;
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
