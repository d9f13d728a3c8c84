import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { reasonOf } from '../errors/index.ts';
import { asRecord, type UnknownRecord } from '../records/index.ts';
import { askLoader, findThreadEntry } from './ask-loader.ts';
import { openDigest } from './file-digest.ts';
import type { ModelFile } from './types.ts';

/** Files of a model folder that matter for serving, besides config.json and its tokenizer. */
const OTHER_FILES = [
  'tokenizer_config.json',
  'generation_config.json',
  'chat_template.jinja',
  'chat_template.json',
] as const;

/**
 * Size up to which a JSON file is parsed in this thread, in some milliseconds; the largest in use repeat 30,000 added
 * tokens in 5 MB.
 */
const JSON_BYTES_HERE = 256 * 1024;
/** Size above which the small files are refused; tokenizer.json has no such bound. */
const TEXT_BYTES_MAX = 16 * 1024 * 1024;

/** Checks that `path` is a folder. @throws ModelFolderError when it is not */
export async function checkFolder(path: string): Promise<void> {
  const found = await stat(path).catch(ifMissing);
  if (found === undefined)
    throw new ModelFolderError(`${path}: no such folder; give the path of a Hugging Face model folder`);
  if (!found.isDirectory())
    throw new ModelFolderError(`${path}: not a folder; give the folder that holds tokenizer.json`);
}

/** Returns the text of a small file, or undefined when the folder does not have it. */
export async function readText(folder: string, name: string): Promise<string | undefined> {
  const path = join(folder, name);
  return (await sizeOf(path)) === undefined ? undefined : readWhole(path);
}

/** Reads a small JSON file as an object; returns undefined when the folder does not have it. */
export async function readJsonObject(folder: string, name: string): Promise<UnknownRecord | undefined> {
  const path = join(folder, name);
  const size = await sizeOf(path);
  if (size === undefined) return undefined;
  const entry = size > JSON_BYTES_HERE ? findThreadEntry('tokenizer-loader.js') : undefined;
  let record: UnknownRecord | undefined;
  try {
    record = entry === undefined ? asRecord(JSON.parse(await readWhole(path))) : await readApart(entry, path);
  } catch (error) {
    throw error instanceof SyntaxError ? brokenJson(path, error) : error;
  }
  if (record === undefined) throw new ModelFolderError(`${path}: not a JSON object; download the file again`);
  return record;
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(ifMissing);
  if (found !== undefined && found.size > TEXT_BYTES_MAX) {
    throw new ModelFolderError(`${path}: ${found.size} bytes, more than ${TEXT_BYTES_MAX}`);
  }
  return found?.size;
}

async function readWhole(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ModelFolderError(`${path}: cannot be read: ${String(error)}`, { cause: error });
  }
}

/** Reads a large file in a thread, which returns only the members that matter. */
async function readApart(entry: string, path: string): Promise<UnknownRecord | undefined> {
  const answer = await askLoader(entry, { kind: 'config', path });
  if ('config' in answer) return answer.config;
  if ('syntaxError' in answer) throw new SyntaxError(answer.syntaxError);
  throw new ModelFolderError(`${path}: ${'unsupported' in answer ? answer.unsupported : 'the loader broke'}`);
}

export function brokenJson(path: string, error: unknown): ModelFolderError {
  const reason = reasonOf(error);
  return new ModelFolderError(`${path}: broken JSON (${reason.replaceAll('\n', ' ')}); download the file again`, {
    cause: error,
  });
}

/**
 * Returns those of the `names` in a model's folder or repository that serving needs, which never are its weights. They
 * are names of files directly in the folder: a path of a hostile list could lead out of it.
 */
export function namesForServing(names: readonly string[]): readonly string[] {
  const tokenizer = chooseTokenizer(names);
  const wanted = ['config.json', ...(tokenizer === undefined ? [] : [tokenizer]), ...OTHER_FILES];
  return wanted.filter((name) => names.includes(name));
}

/** Returns size and checksum of every file that the folder has. */
export async function readModelFiles(folder: string): Promise<Readonly<Record<string, ModelFile>>> {
  const files: Record<string, ModelFile> = {};
  const tokenizer = await findTokenizerFile(folder);
  for (const name of ['config.json', ...(tokenizer === undefined ? [] : [tokenizer]), ...OTHER_FILES]) {
    const file = await describeModelFile(join(folder, name));
    if (file !== undefined) files[name] = file;
  }
  return files;
}

/**
 * Returns size and SHA-256 of one file; undefined when it does not exist.
 * @throws ModelFolderError when it is not a regular file (a device has no end), or larger than any text file of a model
 */
export async function describeModelFile(path: string): Promise<ModelFile | undefined> {
  const size = await regularSize(path);
  return size === undefined ? undefined : { path, checksum: await checksumOf(path, size, 'sha256:'), size };
}

/**
 * Returns the same files with checksums of BLAKE3 beside their own, because Dynamo has no other kind.
 * @throws ModelFolderError as `describeModelFile`
 */
export async function withBlake3<Role extends string>(
  files: Readonly<Record<Role, ModelFile>>,
): Promise<Readonly<Record<Role, ModelFile>>> {
  const summed: Partial<Record<Role, ModelFile>> = {};
  for (const [role, file] of Object.entries<ModelFile>(files)) {
    summed[role as Role] = { ...file, blake3: await checksumOf(file.path, file.size, 'blake3:') };
  }
  return summed as Record<Role, ModelFile>;
}

/**
 * Compares the file at `path` with the one that a card describes. Only a file of the same size is read.
 * @throws ModelFolderError as `describeModelFile`
 */
export async function compareModelFile(path: string, wanted: ModelFile): Promise<'same' | 'different' | 'absent'> {
  const size = await regularSize(path);
  if (size === undefined) return 'absent';
  if (wanted.size !== size) return 'different';
  return (await checksumOf(path, size, wanted.checksum)) === wanted.checksum ? 'same' : 'different';
}

/** Size limit of one file. The largest tokenizers have some 50 MB. */
const FILE_BYTES_MAX = 1024 * 1024 * 1024;

async function regularSize(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(ifMissing);
  if (found === undefined) return undefined;
  if (!found.isFile()) throw new ModelFolderError(`${path}: not a file`);
  if (found.size > FILE_BYTES_MAX)
    throw new ModelFolderError(`${path}: ${found.size} bytes, more than ${FILE_BYTES_MAX}`);
  return found.size;
}

/** Bytes that are hashed at once: for a few milliseconds, if the kind of checksum is slow. */
const PART_BYTES = 1 << 18;

/**
 * Returns the checksum of the first `size` bytes, even if the file grows meanwhile.
 * @param kind text that begins with the kind of the checksum and a colon
 */
async function checksumOf(path: string, size: number, kind: string): Promise<string> {
  const digest = await openDigest(kind);
  if (size > 0) {
    const parts: AsyncIterable<Uint8Array> = createReadStream(path, { highWaterMark: PART_BYTES, end: size - 1 });
    for await (const part of parts) digest.update(part);
  }
  return digest.checksum();
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
  throw new ModelFolderError(`${error.path ?? 'model folder'}: cannot be read: ${error.message}`, { cause: error });
}

/** Error for a model folder that cannot be used. The message is one line: which file, what is wrong, what to do. */
export class ModelFolderError extends Error {
  override readonly name = 'ModelFolderError';
}

/** Format of a tokenizer file, known from its extension. */
type TokenizerKind = 'json' | 'tiktoken';

/** Preferred names of a folder's tokenizer: the first that exists wins, then any `*.tiktoken`. */
const NAMES = ['tokenizer.json', 'tiktoken.model'];

/**
 * Returns the name of the folder's tokenizer file; undefined without one. A `tokenizer.*` of any kind counts, so that
 * the message that refuses it can name it.
 */
export async function findTokenizerFile(folder: string): Promise<string | undefined> {
  const entries = await readdir(folder, { withFileTypes: true });
  // Folders of the Hugging Face cache hold links.
  return chooseTokenizer(
    entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map((entry) => entry.name),
  );
}

/** Returns which of the `names` in a folder is its tokenizer file; undefined if none is. Paths do not count. */
function chooseTokenizer(names: readonly string[]): string | undefined {
  const direct = names.filter((name) => !/[/\\]/.test(name));
  const tiktoken = direct.filter((name) => name.endsWith('.tiktoken')).sort();
  const others = direct.filter((name) => name.startsWith('tokenizer.')).sort();
  return [...NAMES, ...tiktoken, ...others].find((name) => direct.includes(name));
}

/** Returns the format of a tokenizer file; undefined when its extension belongs to neither. */
export function kindOfTokenizer(path: string): TokenizerKind | undefined {
  const extension = extname(path);
  if (extension === '.json') return 'json';
  return extension === '.model' || extension === '.tiktoken' ? 'tiktoken' : undefined;
}
