import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { shareTables } from './bpe/tables.ts';
import { type LoaderAnswer, type LoaderTask, scanAndKeep } from './loader.ts';
import { UnsupportedTokenizer } from './tokenizer-shape.ts';

/** Entry of the loader thread: answers once with the tables of the file it was started for, then ends. */
function answer(task: LoaderTask): void {
  const file = readFileSync(task.path);
  let reply: LoaderAnswer;
  try {
    const { rest, tables } = scanAndKeep(task, file);
    reply = { scanned: { rest, tables: tables && shareTables(tables) } };
  } catch (error) {
    if (error instanceof UnsupportedTokenizer) reply = { unsupported: error.message };
    else if (error instanceof SyntaxError) reply = { syntaxError: error.message };
    else throw error;
  }
  parentPort?.postMessage(reply);
}

answer(workerData as LoaderTask);
