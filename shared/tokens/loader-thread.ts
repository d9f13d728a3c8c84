import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import type { LoaderAnswer, LoaderTask } from './ask-loader.ts';
import { shareTables } from './bpe/tables.ts';
import { prepareGeneral } from './general/open-general.ts';
import { readLargeConfig } from './large-config.ts';
import { scanAndKeep } from './loader.ts';
import { UnsupportedTokenizer } from './tokenizer-shape.ts';

/** Entry of the loader thread: performs the task that it was started for, answers once and ends. */
async function answer(task: LoaderTask): Promise<LoaderAnswer> {
  try {
    if (task.kind === 'template') return await parse(task.source);
    const file = readFileSync(task.path);
    if (task.kind === 'config') return { config: readLargeConfig(file.toString()) };
    if (task.kind === 'general') return { general: await prepareGeneral(file) };
    const { tables, ...scanned } = scanAndKeep(task, file);
    return { scanned: { ...scanned, tables: tables && shareTables(tables) } };
  } catch (error) {
    if (error instanceof UnsupportedTokenizer) return { unsupported: error.message };
    if (error instanceof SyntaxError) return { syntaxError: error.message };
    throw error;
  }
}

/** Loads the template parser only when it is needed. */
async function parse(source: string): Promise<LoaderAnswer> {
  const { parseTemplate, TemplateSyntaxError } = await import('./template/syntax.ts');
  try {
    return { nodes: parseTemplate(source) };
  } catch (error) {
    if (error instanceof TemplateSyntaxError) return { syntaxError: error.message };
    throw error;
  }
}

parentPort?.postMessage(await answer(workerData as LoaderTask));
