import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { tableBuffers } from './bpe/tables.ts';
import type { LoaderAnswer } from './loader.ts';
import { scanTokenizerFile } from './scan-file.ts';

/** Entry of the loader thread: answers once with the tables of the file it was started for, then ends. */
function answer(path: string): void {
  const file = readFileSync(path);
  let reply: LoaderAnswer;
  try {
    reply = { scanned: scanTokenizerFile(path, file) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    reply = { syntaxError: error.message };
  }
  const tables = 'scanned' in reply ? reply.scanned.tables : undefined;
  parentPort?.postMessage(reply, tables === undefined ? [] : tableBuffers(tables));
}

answer((workerData as { readonly path: string }).path);
