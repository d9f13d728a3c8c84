import { copyFile, mkdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { HubModel } from '../../config/index.ts';
import { asRecord } from '../../records/index.ts';
import { findTokenizerFile, namesForServing } from '../../tokens/index.ts';
import { etagOf, type HubFile, type HubListing } from './listing.ts';

/** A model in the cache. */
export interface Snapshot {
  readonly folder: string;
  /** Whether the folder has every file that serving needs. */
  readonly isWhole: boolean;
  /** Whether it has at least a configuration and a tokenizer. */
  readonly isUsable: boolean;
}

/** Version of the lists of files that Hugging Face's tools keep in the cache. */
const TREE_VERSION = 1;

/**
 * One model in the cache that Hugging Face's own tools share:
 *
 *     models--ORG--NAME/refs/main                   the commit of a branch or tag
 *     models--ORG--NAME/blobs/ETAG                  the content of a file
 *     models--ORG--NAME/snapshots/COMMIT/config.json -> ../../blobs/ETAG
 *     models--ORG--NAME/trees/COMMIT.json           all files of a commit, also those that are not here
 */
export class CachedModel {
  readonly #model: HubModel;
  readonly #root: string;
  /** Folder for locks. It is not created here. */
  readonly locks: string;

  constructor(cache: string, model: HubModel) {
    const name = `models--${model.id.replace('/', '--')}`;
    this.#model = model;
    this.#root = join(cache, name);
    this.locks = join(cache, '.locks', name);
  }

  /** Returns the snapshot of the model's revision; undefined if there is none. */
  async find(): Promise<Snapshot | undefined> {
    const commit = await this.#commit();
    if (commit === undefined) return undefined;
    const folder = this.#snapshot(commit);
    if (!(await exists(folder))) return undefined;
    const isUsable = (await findTokenizerFile(folder)) !== undefined && (await exists(join(folder, 'config.json')));
    return { folder, isWhole: await this.#isWhole(folder, commit, isUsable), isUsable };
  }

  /** Returns the path of a file's content. */
  blobPath(file: HubFile): string {
    return join(this.#root, 'blobs', etagOf(file));
  }

  /** Whether the content of a file is here, also if another commit or another tool has brought it. */
  async hasBlob(file: HubFile): Promise<boolean> {
    const found = await stat(this.blobPath(file)).catch(() => undefined); // absence is the answer
    return found?.size === file.size;
  }

  /** Creates the folder for locks, which other users of the cache may write, too. */
  async prepareLocks(): Promise<void> {
    await mkdir(this.locks, { recursive: true });
  }

  /** Creates the folders for a commit. */
  async prepare(commit: string): Promise<void> {
    await mkdir(join(this.#root, 'blobs'), { recursive: true });
    await mkdir(this.#snapshot(commit), { recursive: true });
  }

  /** Puts a content into the snapshot under its name. Systems without links get a copy. */
  async link(commit: string, file: HubFile): Promise<void> {
    const path = join(this.#snapshot(commit), file.name);
    if (await exists(path)) return;
    await rm(path, { force: true }); // a link to a content that was removed
    await symlink(join('..', '..', 'blobs', etagOf(file)), path).catch(async (thrown: NodeJS.ErrnoException) => {
      if (thrown.code === 'EEXIST') return; // another tool was faster
      await copyFile(this.blobPath(file), path);
    });
  }

  /**
   * Keeps the list of files, and the commit of the revision, once all files are there. From the list, other tools see
   * that the snapshot lacks files that serving does not need, as the weights.
   */
  async complete({ commit, files }: HubListing): Promise<void> {
    const tree = {
      format_version: TREE_VERSION,
      files: Object.fromEntries([...files].sort().map(([name, file]) => [name, treeEntry(file)])),
    };
    await writeWhole(this.#treePath(commit), JSON.stringify(tree));
    if (this.#model.revision !== commit) await writeWhole(this.#refPath(), commit);
  }

  async #commit(): Promise<string | undefined> {
    const { revision } = this.#model;
    if (/^[0-9a-f]{40}$/.test(revision)) return revision;
    const text = (await readFile(this.#refPath(), 'utf8').catch(() => '')).trim(); // not downloaded
    return /^\w[\w.-]*$/.test(text) ? text : undefined;
  }

  async #isWhole(folder: string, commit: string, isUsable: boolean): Promise<boolean> {
    const listed = await this.#listed(commit);
    if (listed === undefined) return isUsable && hasTemplate(folder);
    const found = await Promise.all(namesForServing(listed).map((name) => exists(join(folder, name))));
    return found.every(Boolean);
  }

  /** Returns the names of all files of a commit; undefined if they are unknown here. */
  async #listed(commit: string): Promise<readonly string[] | undefined> {
    try {
      const tree = asRecord(JSON.parse(await readFile(this.#treePath(commit), 'utf8')));
      const files = tree?.format_version === TREE_VERSION ? asRecord(tree.files) : undefined;
      return files && Object.keys(files);
    } catch {
      return undefined; // only some versions of the tools keep it; the folder itself decides then
    }
  }

  #snapshot(commit: string): string {
    return join(this.#root, 'snapshots', commit);
  }

  #refPath(): string {
    return join(this.#root, 'refs', this.#model.revision);
  }

  #treePath(commit: string): string {
    return join(this.#root, 'trees', `${commit}.json`);
  }
}

/** Whether a folder has a chat template. A model without one may have one that was not downloaded. */
async function hasTemplate(folder: string): Promise<boolean> {
  const config = await readFile(join(folder, 'tokenizer_config.json'), 'utf8').catch(() => undefined); // absent
  if (config === undefined) return false;
  if (config.includes('"chat_template"')) return true;
  const files = ['chat_template.jinja', 'chat_template.json'].map((name) => exists(join(folder, name)));
  return (await Promise.all(files)).includes(true);
}

function treeEntry({ size, blobId, sha256 }: HubFile): Readonly<Record<string, unknown>> {
  return { size, blob_id: blobId, ...(sha256 === undefined ? {} : { lfs_sha256: sha256, lfs_size: size }) };
}

/** Writes a file that no reader ever sees in part. The caller holds the lock of the model. */
async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const part = `${path}.stator.tmp`;
  await writeFile(part, text);
  await rename(part, path);
}

/** Whether something exists at `path`, following links. */
async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false, // absence is the answer
  );
}
