import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { shareTables } from './bpe/tables.ts';
import { type LoaderAnswer, type LoaderTask, scanAndKeep } from './loader.ts';

/** Entry of the loader thread: answers once with the tables of the file it was started for, then ends. */
function answer(task: LoaderTask): void {
  const file = readFileSync(task.path);
  let reply: LoaderAnswer;
  try {
    const { rest, tables } = scanAndKeep(task, file);
    reply = { scanned: { rest, tables: tables && shareTables(tables) } };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    reply = { syntaxError: error.message };
  }
  parentPort?.postMessage(reply);
}

answer(workerData as LoaderTask);
