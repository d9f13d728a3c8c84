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

/** Size up to which a file is read in this thread, in some milliseconds; starting another one costs 50 ms of CPU. */
const SMALL_BYTES_MAX = 128 * 1024;
/** Number of ids up to which tables are built in this thread: tables are sized by the largest id. */
const SMALL_IDS_MAX = 65_536;

/**
 * Loads the tables of a tokenizer file. Takes them from `prepared` if they are kept there; otherwise a thread reads and
 * tabulates the file and keeps the tables there, so that neither the parsing nor its garbage burdens this thread. Runs
 * in this thread if the file is small, or if the thread's bundle is missing (tests run from sources).
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
  await setImmediate(); // the answer is made into a tokenizer in another turn
  if ('scanned' in answer) return answer.scanned;
  throw toError(answer);
}

/**
 * Loads the tokenizer of a tokenizer.json that is not byte-level BPE. A thread reads its vocabulary, whatever its size,
 * and threads encode texts; this thread does both only if the bundles are missing.
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
 * Reads a tokenizer file and keeps its tables for later starts; a tiktoken file has only tables.
 * @throws SyntaxError when it is broken, UnsupportedTokenizer for a feature that no tokenizer in use has
 */
export function scanAndKeep(task: FileTask, file: Uint8Array): ScannedTokenizer {
  return keep(task, complete(scan(task.path, file)));
}

function scan(path: string, file: Uint8Array): ScannedTokenizer {
  return kindOfTokenizer(path) === 'json' ? scanChecked(file) : { rest: undefined, tables: scanTiktoken(file) };
}

/** Returns how many ids the tables have, or will have with the added tokens. */
function idsOf({ rest, tables }: ScannedTokenizer): number {
  const added = readAddedTokens(asRecord(rest)?.added_tokens);
  return added.reduce((most, { id }) => Math.max(most, id + 1), tables?.flags.length ?? 0);
}

function keep({ prepared }: FileTask, scanned: ScannedTokenizer): ScannedTokenizer {
  try {
    if (prepared !== undefined) writePrepared(prepared, scanned);
  } catch {
    // A full or missing folder costs the next start half a second, and this one nothing.
  }
  return scanned;
}

/**
 * Keeps of the file only what later steps use, and adds the added tokens to the tables, so that the receiver need not
 * grow them.
 */
function complete({ rest, tables }: ScannedTokenizer): ScannedTokenizer {
  if (rest === undefined) return { rest, tables }; // a tiktoken file, whose added tokens stand in another file
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
