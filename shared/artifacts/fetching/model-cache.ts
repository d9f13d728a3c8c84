import { createHash } from 'node:crypto';
import { lstat, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { detailOf, reasonOf } from '../../errors/index.ts';
import { type ModelFile, ModelFolderError, type PreparedFile } from '../../tokens/index.ts';
import { CUSTOM_TEMPLATE_ROLE, ModelFilesAbsent } from '../open-model-folder.ts';
import { type FetchFileOptions, fetchFile } from './fetch-file.ts';
import { FolderCache } from './folder-cache.ts';
import type { Artifact, ArtifactSource } from './sources.ts';

export interface ModelCacheOptions {
  /** `STATOR_ARTIFACTS_CACHE_DIR`; made for this user alone when it is first needed. */
  readonly root: string;
  /** `STATOR_ARTIFACTS_CACHE_MB` in bytes. */
  readonly bytesMax: number;
  readonly clock: Clock;
  readonly random: Random;
  /** Opens the files that are written. @default on this disk */
  readonly create?: FetchFileOptions['create'];
  readonly onRead: FetchFileOptions['onRead'];
  onRemoved(path: string, bytes: number): void;
}

/** Which files to fetch: those that a card names. */
export interface CardFiles {
  /** For messages. */
  readonly modelName: string;
  /** By role. */
  readonly files: Readonly<Record<string, ModelFile>>;
}

const ENTRIES_MAX = 1000;
const FILES_MAX = 64;
/** Longest fetch of one model. */
const FETCH_MS_MAX = 5 * 60_000;
/** A smaller tokenizer is read as fast as its tables. */
const PREPARED_BYTES_MIN = 1 << 20;

/**
 * Models whose folder lies on another machine, in folders of this one, by the checksums of their files: fetched once for all
 * that ask, complete or not there at all.
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
   * Calls `use` with the folder that holds every file of the card, which stays for so long; out of `sources`, the first one
   * first, where it is not here yet.
   * @throws ModelFolderError with one line that says which file could not be had, and why; whatever `use` throws
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
      if (thrown instanceof ModelFilesAbsent) await this.#folders.remove(folder); // damaged since: fetched anew the next time
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

  /** Where the tables of the card's tokenizer are kept; undefined where it is small, or where nothing can be kept. */
  async preparedOf(files: CardFiles['files']): Promise<PreparedFile | undefined> {
    const tokenizer = Object.values(files).find(({ path }) =>
      /^(tokenizer\.json|.*\.tiktoken|tiktoken\.model)$/.test(basename(path)),
    );
    const [, source] = /^sha256:([0-9a-f]{64})$/.exec(tokenizer?.checksum ?? '') ?? [];
    if (tokenizer === undefined || source === undefined || tokenizer.size < PREPARED_BYTES_MIN) return undefined;
    const folder = this.#folders.pathOf(`tokenizer-${source.slice(0, 32)}`);
    try {
      await this.#ownRoot();
      if (!(await this.#folders.use(folder))) await this.#folders.add(folder, tokenizer.size, async () => {});
      return { path: join(folder, 'tables.bpe'), source };
    } catch {
      return undefined; // the next start reads the file again: no reason not to serve
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
            await fetchFile(artifact, join(part, artifact.name), sources, { clock, signal, create, onRead }).catch(
              (thrown) => {
                throw new Error(`${artifact.name} cannot be fetched: ${reasonOf(thrown)}`);
              },
            );
          }
        });
      });
      return folder;
    } catch (thrown) {
      throw new ModelFolderError(`model ${modelName}: ${detailOf(thrown)}`, { cause: thrown });
    }
  }

  /** @throws Error when others could write what is kept there */
  async #ownRoot(): Promise<void> {
    const { root } = this.#options;
    await mkdir(root, { recursive: true, mode: 0o700 });
    const found = await lstat(root);
    const isOwn = found.isDirectory() && found.uid === (process.getuid?.() ?? found.uid) && (found.mode & 0o022) === 0;
    if (!isOwn) {
      throw new Error(`${root} is no folder of this user alone: set STATOR_ARTIFACTS_CACHE_DIR to one that is`);
    }
  }
}

/** @throws ModelFolderError when the card names what is no file of a folder */
function artifactsOf({ modelName, files }: CardFiles): readonly Artifact[] {
  const artifacts = Object.entries(files).map(([role, { path, checksum, size }]) => {
    return { name: role === CUSTOM_TEMPLATE_ROLE ? role : basename(path), checksum, size };
  });
  const names = new Set(artifacts.map(({ name }) => name));
  const isSound = artifacts.every(({ name }) => /^[^/\\\0]{1,255}$/.test(name) && name !== '.' && name !== '..');
  if (isSound && names.size === artifacts.length && artifacts.length > 0 && artifacts.length <= FILES_MAX) {
    return artifacts.sort((one, other) => (one.name < other.name ? -1 : 1));
  }
  throw new ModelFolderError(`model ${modelName}: its card does not name the files of a folder, 1 to ${FILES_MAX}`);
}

function shortSum(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
