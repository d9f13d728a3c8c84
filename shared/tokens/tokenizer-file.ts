import { readdir } from 'node:fs/promises';
import { extname } from 'node:path';

/** How a tokenizer file is written; told from its extension. */
export type TokenizerKind = 'json' | 'tiktoken';

/** Names that a folder's tokenizer may have, the first that is there wins; then any `*.tiktoken`. */
const NAMES = ['tokenizer.json', 'tiktoken.model'];

/**
 * Name of the folder's tokenizer file; undefined without one. A `tokenizer.*` of any kind counts, so that it can be named
 * in the message that refuses it.
 */
export async function findTokenizerFile(folder: string): Promise<string | undefined> {
  const entries = await readdir(folder, { withFileTypes: true });
  // Folders of the Hugging Face cache hold links.
  const names = entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map((entry) => entry.name);
  const tiktoken = names.filter((name) => name.endsWith('.tiktoken')).sort();
  const others = names.filter((name) => name.startsWith('tokenizer.')).sort();
  return [...NAMES, ...tiktoken, ...others].find((name) => names.includes(name));
}

/** Undefined for an extension that is none of a tokenizer's. */
export function kindOfTokenizer(path: string): TokenizerKind | undefined {
  const extension = extname(path);
  if (extension === '.json') return 'json';
  return extension === '.model' || extension === '.tiktoken' ? 'tiktoken' : undefined;
}
