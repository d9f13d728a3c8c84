import { reasonOf } from '../../errors/index.ts';
import { asRecord } from '../../records/index.ts';
import { checkVocabulary, UnsupportedTokenizer } from '../tokenizer-shape.ts';
import type { Tokenizer } from '../types.ts';
import { createDecoder } from './decoder.ts';
import { createGeneralEncode } from './library.ts';
import { createGeneralTokenizer } from './tokenizer.ts';
import { type GeneralTables, tabulateGeneral } from './vocabulary.ts';

/** Model types that are covered. If the type is absent, the other fields identify it. */
const MODEL_TYPES = new Set<unknown>(['BPE', 'Unigram', 'WordPiece', 'WordLevel', undefined]);

/**
 * Size limit of the file. The library takes a thread some seconds and 20 times the file's size; the largest files in
 * use have 35 MB.
 */
const FILE_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Checks a tokenizer.json that is not byte-level BPE and prepares its tables, for a thread that will only decode.
 * @throws UnsupportedTokenizer, or SyntaxError when the file is broken
 */
export async function prepareGeneral(file: Uint8Array): Promise<GeneralTables> {
  const json = readChecked(file);
  return orUnsupported(async () => {
    await createGeneralEncode(json); // throws if the library refuses a part of the file
    const tables = tabulateGeneral(json);
    createDecoder(tables.decoder, () => false);
    return tables;
  });
}

/** Opens such a file in a process without loader threads; its tokenizer encodes in this thread. */
export async function openGeneral(file: Uint8Array, path: string): Promise<Tokenizer> {
  const json = readChecked(file);
  return orUnsupported(() => createGeneralTokenizer(json, path));
}

function readChecked(file: Uint8Array): unknown {
  if (file.length > FILE_BYTES_MAX) {
    throw new UnsupportedTokenizer(
      `${file.length} bytes, more than ${FILE_BYTES_MAX} for one that is not a byte-level BPE`,
    );
  }
  const json: unknown = JSON.parse(new TextDecoder().decode(file));
  const { type } = asRecord(asRecord(json)?.model) ?? {};
  if (!MODEL_TYPES.has(type)) throw unsupported(`model type ${JSON.stringify(type)}`);
  checkVocabulary(json);
  return json;
}

async function orUnsupported<T>(open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    throw unsupported(reasonOf(error).replaceAll('\n', ' '), error);
  }
}

function unsupported(reason: string, cause?: unknown): UnsupportedTokenizer {
  const what = 'use a model with a BPE, Unigram, WordPiece or WordLevel tokenizer.json';
  return new UnsupportedTokenizer(`${reason}; ${what}`, { cause });
}
