import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { shareTables } from './bpe/tables.ts';
import { prepareGeneral } from './general/open-general.ts';
import { type LoaderAnswer, type LoaderTask, scanAndKeep } from './loader.ts';
import { UnsupportedTokenizer } from './tokenizer-shape.ts';

/** Entry of the loader thread: answers once with what is in the file it was started for, then ends. */
async function answer(task: LoaderTask): Promise<LoaderAnswer> {
  const file = readFileSync(task.path);
  try {
    if (task.kind === 'general') return { general: await prepareGeneral(file) };
    const { tables, ...scanned } = scanAndKeep(task, file);
    return { scanned: { ...scanned, tables: tables && shareTables(tables) } };
  } catch (error) {
    if (error instanceof UnsupportedTokenizer) return { unsupported: error.message };
    if (error instanceof SyntaxError) return { syntaxError: error.message };
    throw error;
  }
}

parentPort?.postMessage(await answer(workerData as LoaderTask));
