import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { lstat, mkdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { detailOf, reasonOf } from '../../errors/index.ts';
import { type ModelFile, ModelFolderError, openDigest, type PreparedFile } from '../../tokens/index.ts';
import { CUSTOM_TEMPLATE_ROLE, isUrl, ModelFilesAbsent } from '../open-model-folder.ts';
import { FolderCache } from './folder-cache.ts';
import { silenceOf } from './silence.ts';
import type { Artifact, ArtifactSource } from './sources.ts';

/** Outcome of a read from a source. */
type FetchOutcome = 'fetched' | 'wrong' | 'failed';

interface FetchFileOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Opens the file to write; there is none yet at `path`. @default on this disk */
  readonly create?: ((path: string) => Writable) | undefined;
  /** Called with the outcome of each source. */
  onRead(source: ArtifactSource, outcome: FetchOutcome, bytes: number): void;
}

/** Errors of the local disk: another source would not help. */
const DISK_FAULTS: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'EIO']);

const onThisDisk = (path: string): Writable => createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true });

/**
 * Writes `file` to `path`, from the first of `sources` that has exactly its bytes.
 * @throws Error with one line that says what was wrong with each source; the error of this disk if it takes no more
 * data, in which case no other source is read; the signal's reason. Then nothing is left at `path`.
 */
async function fetchFile(
  file: Artifact,
  path: string,
  sources: readonly ArtifactSource[],
  options: FetchFileOptions,
): Promise<void> {
  const faults: string[] = [];
  for (const source of sources) {
    let bytes = 0;
    try {
      const fault = await readFrom(source, file, path, options, (length) => {
        bytes += length;
      });
      options.onRead(source, fault === undefined ? 'fetched' : 'wrong', bytes);
      if (fault === undefined) return;
      faults.push(`${source.place}: ${fault}`);
    } catch (thrown) {
      if (DISK_FAULTS.has((thrown as NodeJS.ErrnoException).code)) {
        await rm(path, { force: true });
        throw thrown;
      }
      options.onRead(source, 'failed', bytes);
      faults.push(`${source.place}: ${reasonOf(thrown)}`);
    }
    await rm(path, { force: true });
    options.signal.throwIfAborted();
  }
  throw new Error(faults.length === 0 ? 'no worker and no bucket to fetch it from' : faults.join('; '));
}

/** @returns what is wrong with the bytes; undefined = they are those of the file */
async function readFrom(
  source: ArtifactSource,
  file: Artifact,
  path: string,
  { clock, signal, create = onThisDisk }: FetchFileOptions,
  onBytes: (length: number) => void,
): Promise<string | undefined> {
  const silence = silenceOf(clock, signal);
  const digest = await openDigest(file.checksum);
  let bytes = 0;
  const checked = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      silence.heard();
      bytes += chunk.length;
      onBytes(chunk.length);
      if (bytes > file.size) return; // the excess is not read
      digest.update(chunk);
      yield chunk;
    }
  };
  let written: Writable | undefined;
  try {
    const chunks = await source.read(file, silence.signal);
    written = create(path);
    await pipeline(chunks, checked, written, { signal: silence.signal });
  } catch (thrown) {
    // Even an aborted open may create the file; wait for it, because only then can the file be removed.
    if (written?.closed === false) await new Promise((resolve) => written?.once('close', resolve));
    signal.throwIfAborted();
    throw silence.signal.aborted ? silence.signal.reason : thrown;
  } finally {
    silence.end();
  }
  if (bytes !== file.size)
    return bytes > file.size ? `more than ${file.size} bytes` : `${bytes} bytes, not ${file.size}`;
  return digest.checksum() === file.checksum ? undefined : 'its bytes are others than the card names';
}

export interface ModelCacheOptions {
  /** `STATOR_ARTIFACTS_CACHE_DIR`; created for this user only when it is first needed. */
  readonly root: string;
  /** `STATOR_ARTIFACTS_CACHE_MB` in bytes. */
  readonly bytesMax: number;
  readonly clock: Clock;
  readonly random: Random;
  /** Opens the files to write. @default on this disk */
  readonly create?: FetchFileOptions['create'];
  readonly onRead: FetchFileOptions['onRead'];
  onRemoved(path: string, bytes: number): void;
}

/** Files to fetch: those that a card names. */
export interface CardFiles {
  /** Name of the model, for messages. */
  readonly modelName: string;
  /** Files by role. */
  readonly files: Readonly<Record<string, ModelFile>>;
}

const ENTRIES_MAX = 1000;
const FILES_MAX = 64;
/** Longest fetch of one model. */
const FETCH_MS_MAX = 5 * 60_000;
/** Size below which a tokenizer is read as fast as its tables. */
const PREPARED_BYTES_MIN = 1 << 20;

/**
 * Models of other machines, kept in folders of this machine by the checksums of their files. Each is fetched once for
 * all callers, and is either complete or not there at all.
 *
 *     model-{sum of names and checksums}/     the files of a card
 *     tokenizer-{checksum}/tables.bpe         tables of a tokenizer, ready to be opened
 */
export class ModelCache {
  readonly #options: ModelCacheOptions;
  readonly #folders: FolderCache;
  readonly #fetches = new Map<string, Promise<string>>(); // by folder; as many as models are being opened

  constructor(options: ModelCacheOptions) {
    this.#options = options;
    this.#folders = new FolderCache({
      ...options,
      names: '(?:model|tokenizer)-[0-9a-f]{32}',
      entriesMax: ENTRIES_MAX,
      fillMsMax: FETCH_MS_MAX,
    });
  }

  /**
   * Calls `use` with the folder that holds every file of the card, and keeps the folder for that long. A missing file
   * is fetched from the first of `sources` that has it.
   * @throws ModelFolderError with one line that says which file could not be fetched, and why; any error of `use`
   */
  async withFolder<T>(
    card: CardFiles,
    sources: readonly ArtifactSource[],
    use: (folder: string) => Promise<T>,
  ): Promise<T> {
    const folder = await this.#folderOf(card, sources);
    this.#folders.hold(folder);
    try {
      return await use(folder);
    } catch (thrown) {
      // damaged since; the next call fetches it anew
      if (thrown instanceof ModelFilesAbsent) await this.#folders.remove(folder);
      throw thrown;
    } finally {
      this.#folders.release(folder);
    }
  }

  async #folderOf(card: CardFiles, sources: readonly ArtifactSource[]): Promise<string> {
    const artifacts = artifactsOf(card);
    const names = artifacts.map(({ name, checksum }) => [name, checksum]);
    const folder = this.#folders.pathOf(`model-${shortSum(JSON.stringify(names))}`);
    const known = this.#fetches.get(folder);
    if (known !== undefined) return known;
    const fetching = this.#fetch(card.modelName, artifacts, folder, sources).finally(() =>
      this.#fetches.delete(folder),
    );
    this.#fetches.set(folder, fetching);
    return fetching;
  }

  /**
   * Returns the path for the tables of the card's tokenizer; undefined if the tokenizer is small, or if nothing can be
   * kept.
   */
  async preparedOf(files: CardFiles['files']): Promise<PreparedFile | undefined> {
    const tokenizer = Object.values(files).find(({ path }) =>
      /^(tokenizer\.json|.*\.tiktoken|tiktoken\.model)$/.test(basename(path)),
    );
    const [, source] = /^(?:sha256|blake3):([0-9a-f]{64})$/.exec(tokenizer?.checksum ?? '') ?? [];
    if (tokenizer === undefined || source === undefined || tokenizer.size < PREPARED_BYTES_MIN) return undefined;
    const folder = this.#folders.pathOf(`tokenizer-${source.slice(0, 32)}`);
    try {
      await this.#ownRoot();
      if (!(await this.#folders.use(folder))) await this.#folders.add(folder, tokenizer.size, async () => {});
      return { path: join(folder, 'tables.bpe'), source };
    } catch {
      return undefined; // the next start reads the file again, which is no reason not to serve
    }
  }

  async #fetch(
    modelName: string,
    artifacts: readonly Artifact[],
    folder: string,
    sources: readonly ArtifactSource[],
  ): Promise<string> {
    const { clock, create, onRead } = this.#options;
    try {
      await this.#ownRoot();
      if (await this.#folders.use(folder)) return folder;
      const bytes = artifacts.reduce((sum, { size }) => sum + size, 0);
      await this.#folders.add(folder, bytes, (part) => {
        const lateMessage = `the fetch took more than ${FETCH_MS_MAX} ms`;
        return withDeadline({ clock, timeoutMs: FETCH_MS_MAX, lateMessage }, async (signal) => {
          for (const artifact of artifacts) {
            const options = { clock, signal, create, onRead };
            await fetchFile(artifact, join(part, artifact.name), sources, options).catch((thrown) => {
              throw new Error(`${artifact.name} cannot be fetched: ${reasonOf(thrown)}`);
            });
          }
        });
      });
      return folder;
    } catch (thrown) {
      throw new ModelFilesAbsent(`model ${modelName}: ${detailOf(thrown)}`, { cause: thrown });
    }
  }

  /** @throws Error if other users could change the contents */
  async #ownRoot(): Promise<void> {
    const { root } = this.#options;
    await mkdir(root, { recursive: true, mode: 0o700 });
    const found = await lstat(root);
    const isOwn = found.isDirectory() && found.uid === (process.getuid?.() ?? found.uid) && (found.mode & 0o022) === 0;
    if (!isOwn) {
      throw new Error(
        `${root} is not a folder that only this user can write: set STATOR_ARTIFACTS_CACHE_DIR to such a folder`,
      );
    }
  }
}

/** @throws ModelFolderError if the card names something that is not a file of a folder */
function artifactsOf({ modelName, files }: CardFiles): readonly Artifact[] {
  const artifacts = Object.entries(files).map(([role, { path, checksum, size }]) => {
    const served = basename(path);
    const name = role === CUSTOM_TEMPLATE_ROLE ? role : served;
    return { name, servedAs: isUrl(path) ? served : name, checksum, size };
  });
  const names = new Set(artifacts.map(({ name }) => name));
  const isSound = artifacts.every(({ name }) => /^[^/\\\0]{1,255}$/.test(name) && name !== '.' && name !== '..');
  if (isSound && names.size === artifacts.length && artifacts.length > 0 && artifacts.length <= FILES_MAX) {
    return artifacts.sort((one, other) => (one.name < other.name ? -1 : 1));
  }
  throw new ModelFolderError(`model ${modelName}: its card must name 1 to ${FILES_MAX} files of a folder`);
}

function shortSum(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
