import { readFile } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { untilAborted } from '../concurrency/index.ts';
import { type ScannedTokenizer, scanTokenizerJson } from './bpe/build-tables.ts';
import { scanTiktoken } from './bpe/tiktoken.ts';
import { findThreadEntry } from './thread-entry.ts';
import { kindOfTokenizer } from './tokenizer-file.ts';

/** What the thread answers: the tables, or why there are none. */
export type LoaderAnswer = { readonly scanned: ScannedTokenizer } | { readonly syntaxError: string };

/** A tokenizer.json of 30 MB takes about half a second; a thread that is silent for this long is broken. */
const LOAD_TIMEOUT_MS = 60_000;

/**
 * Reads and tabulates a tokenizer file in a thread of its own, so that neither its parsing stops the process nor its
 * garbage stays in it. Runs in this thread where the thread's bundle is missing (tests run from sources).
 * @throws SyntaxError when the file is broken, or the error of reading it
 */
export async function loadTokenizerTables(path: string, signal?: AbortSignal): Promise<ScannedTokenizer> {
  const entry = findThreadEntry('tokenizer-loader.js');
  if (entry === undefined) return scanTokenizerFile(path, await readFile(path, { signal }));
  const answer = await askThread(entry, path, signal);
  if ('syntaxError' in answer) throw new SyntaxError(answer.syntaxError);
  return answer.scanned;
}

async function askThread(entry: string, path: string, signal?: AbortSignal): Promise<LoaderAnswer> {
  signal?.throwIfAborted();
  const thread = new Worker(entry, { workerData: { path } });
  const deadline = AbortSignal.timeout(LOAD_TIMEOUT_MS);
  const stop = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
  try {
    const answer = new Promise<LoaderAnswer>((resolve, reject) => {
      thread.once('message', resolve);
      thread.once('error', reject);
      thread.once('exit', (code) => reject(new Error(`tokenizer loader ended with code ${code} and no answer`)));
    });
    return await untilAborted(answer, stop);
  } finally {
    await thread.terminate();
  }
}

/**
 * Takes a tokenizer file apart; of a tiktoken file there are only tables.
 * @throws SyntaxError when it is broken
 */
export function scanTokenizerFile(path: string, file: Uint8Array): ScannedTokenizer {
  return kindOfTokenizer(path) === 'json' ? scanTokenizerJson(file) : { rest: undefined, tables: scanTiktoken(file) };
}
