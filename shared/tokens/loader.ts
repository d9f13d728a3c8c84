import { readFile, stat } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { asRecord } from '../records/index.ts';
import { packAddedTokens, readAddedTokens } from './added-tokens.ts';
import { askLoader, type FileTask, findThreadEntry, type LoaderAnswer } from './ask-loader.ts';
import { type ScannedTokenizer, scanTokenizerJson } from './bpe/build-tables.ts';
import { type PreparedFile, readPrepared, writePrepared } from './bpe/prepared-tables.ts';
import { scanTiktoken } from './bpe/tiktoken.ts';
import { withAddedTokens } from './bpe/tokenizer.ts';
import { openGeneral } from './general/open-general.ts';
import { createThreadedTokenizer } from './general/tokenizer.ts';
import { kindOfTokenizer } from './model-files.ts';
import { checkTokenizer, UnsupportedTokenizer } from './tokenizer-shape.ts';
import type { Tokenizer } from './types.ts';

/** Takes this thread some milliseconds; to start another one costs 50 ms of CPU. */
const SMALL_BYTES_MAX = 128 * 1024;
/** Tables are sized by the largest id. */
const SMALL_IDS_MAX = 65_536;

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
  const entry = findThreadEntry('tokenizer-loader.js');
  const task: FileTask = { kind: 'tables', path, prepared };
  if (entry === undefined || size <= SMALL_BYTES_MAX) {
    const scanned = scan(path, await readFile(path, { signal }));
    if (entry === undefined || idsOf(scanned) <= SMALL_IDS_MAX) return keep(task, complete(scanned));
  }
  const answer = await askLoader(entry, task, signal);
  await setImmediate(); // what was received is made into a tokenizer in another turn
  if ('scanned' in answer) return answer.scanned;
  throw toError(answer);
}

/**
 * The tokenizer of a tokenizer.json that is no byte-level BPE. Its vocabulary is looked through in a thread, whatever its
 * size, and texts are encoded in threads; in this thread only if the bundles are missing.
 * @throws as `loadTokenizerTables`
 */
export async function loadGeneral(path: string, signal?: AbortSignal): Promise<Tokenizer> {
  const entry = findThreadEntry('encode-thread.js') && findThreadEntry('tokenizer-loader.js');
  if (entry === undefined) return openGeneral(await readFile(path, { signal }), path);
  const answer = await askLoader(entry, { kind: 'general', path, prepared: undefined }, signal);
  if ('general' in answer) return createThreadedTokenizer(answer.general, path);
  throw toError(answer);
}

function toError(answer: LoaderAnswer): Error {
  if ('syntaxError' in answer) return new SyntaxError(answer.syntaxError);
  if ('unsupported' in answer) return new UnsupportedTokenizer(answer.unsupported);
  return new TypeError('the tokenizer loader gave an unexpected answer');
}

/**
 * Takes a tokenizer file apart, and keeps its tables for the next one; of a tiktoken file there are only tables.
 * @throws SyntaxError when it is broken, UnsupportedTokenizer for what no tokenizer in use has
 */
export function scanAndKeep(task: FileTask, file: Uint8Array): ScannedTokenizer {
  return keep(task, complete(scan(task.path, file)));
}

function scan(path: string, file: Uint8Array): ScannedTokenizer {
  return kindOfTokenizer(path) === 'json' ? scanChecked(file) : { rest: undefined, tables: scanTiktoken(file) };
}

/** Ids that the tables have, or will have with the added tokens. */
function idsOf({ rest, tables }: ScannedTokenizer): number {
  const added = readAddedTokens(asRecord(rest)?.added_tokens);
  return added.reduce((most, { id }) => Math.max(most, id + 1), tables?.flags.length ?? 0);
}

function keep({ prepared }: FileTask, scanned: ScannedTokenizer): ScannedTokenizer {
  try {
    if (prepared !== undefined) writePrepared(prepared, scanned);
  } catch {
    // A full or missing folder costs the next one that asks half a second, and this one nothing.
  }
  return scanned;
}

/** What is made of the file later, so that whoever gets it need not grow its tables, and nothing else. */
function complete({ rest, tables }: ScannedTokenizer): ScannedTokenizer {
  if (rest === undefined) return { rest, tables }; // of a tiktoken file, whose added tokens stand in another one
  const { model, added_tokens: added, ...others } = asRecord(rest) ?? {};
  const { normalizer, pre_tokenizer, post_processor, decoder } = others;
  const small = { model, normalizer, pre_tokenizer, post_processor, decoder };
  if (tables === undefined) return { rest: small, tables };
  const tokens = readAddedTokens(added);
  return { rest: small, tables: withAddedTokens(tables, tokens), addedTokens: packAddedTokens(tokens) };
}

function scanChecked(file: Uint8Array): ScannedTokenizer {
  const scanned = scanTokenizerJson(file);
  checkTokenizer(scanned.rest);
  return scanned;
}
