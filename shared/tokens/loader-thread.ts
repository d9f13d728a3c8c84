import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { scanTokenizerJson } from './bpe/build-tables.ts';
import { tableBuffers } from './bpe/tables.ts';
import type { LoaderAnswer } from './loader.ts';

/** Entry of the loader thread: answers once with the tables of the file it was started for, then ends. */
function answer(path: string): void {
  const json = readFileSync(path);
  let reply: LoaderAnswer;
  try {
    reply = { scanned: scanTokenizerJson(json) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    reply = { syntaxError: error.message };
  }
  const tables = 'scanned' in reply ? reply.scanned.tables : undefined;
  parentPort?.postMessage(reply, tables === undefined ? [] : tableBuffers(tables));
}

answer((workerData as { readonly path: string }).path);
