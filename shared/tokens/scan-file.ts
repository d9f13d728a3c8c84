import { type ScannedTokenizer, scanTokenizerJson } from './bpe/build-tables.ts';
import { scanTiktoken } from './bpe/tiktoken.ts';
import { kindOfTokenizer } from './tokenizer-file.ts';

/**
 * Takes a tokenizer file apart; of a tiktoken file there are only tables.
 * @throws SyntaxError when it is broken
 */
export function scanTokenizerFile(path: string, file: Uint8Array): ScannedTokenizer {
  return kindOfTokenizer(path) === 'json' ? scanTokenizerJson(file) : { rest: undefined, tables: scanTiktoken(file) };
}
