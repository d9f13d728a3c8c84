import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forAtMost, inBatches, Semaphore } from '../../concurrency/index.ts';
import type { FleetSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { fromDynamo } from '../dynamo/read-record.ts';
import { toDynamo } from '../dynamo/write-record.ts';
import { addressOf, BUCKETS, type Bucket, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { type DiscoveryBaseOptions, DiscoveryError, type OpenStore, withDefaults } from '../options.ts';
import { toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Discovery, DiscoveryQuery, DrainOrder, FleetLoads, Watch, WatchListener } from '../types.ts';
import { BucketFolder, type BucketFolderOptions } from './bucket-folder.ts';
import { FolderFollower, type FolderReader } from './folder-follower.ts';
import { JoinedReader } from './joined-reader.ts';
import { makeOwnFolder, userFolder } from './user-folder.ts';

export interface FileDiscoveryOptions extends DiscoveryBaseOptions {
  /**
   * Root folder, created if absent. Processes that share it see each other, and trust every process that can write to
   * it.
   */
  readonly rootPath: string;
  /** Whether no setting named the folder, so that it must belong to this user only. @default false */
  readonly isOwn?: boolean;
  /** Time to live of files that processes of Dynamo write, which no setting of theirs changes. @default 10_000 */
  readonly dynamoTtlMs?: number;
  /** Longest time between two readings while watching. @default 1000, at most half the time to live */
  readonly pollMs?: number;
}

interface OwnedFile {
  readonly folder: BucketFolder;
  readonly key: string;
  readonly text: string;
  readonly instanceId: string;
}

/**
 * Folder of all files of Stator. Those of Dynamo are in `v1/` beside it; its frontends would try to read the records
 * that they find there.
 *
 *     stator/v1/instances/   a file for each record, like all buckets of records
 *     stator/v1/loads/       a file for each process, with the loads of its workers
 *     stator/v1/orders/      orders to drain, a file for each worker, which reads its own with each renewal
 *     v1/instances/          a file for each record of Dynamo, like all buckets of records
 */
const ROOT = 'stator';
const LOADS = `${ROOT}/v1/loads`;
const ORDERS = `${ROOT}/v1/orders`;
const DYNAMO_TTL_MS = 10_000;

interface Folder {
  readonly folder: BucketFolder;
  readonly follower: FolderFollower;
}

const POLL_MS = 1000;
/** Longest wait for the folder, because a folder over a network may hang. */
const REFRESH_TIMEOUT_MS = 1000;

export const openFile: OpenStore = async ({ fileKv }, options) => {
  if (fileKv !== undefined) return new FileDiscovery({ ...options, rootPath: fileKv });
  const { path, insteadOf } = await userFolder();
  if (insteadOf !== undefined) withDefaults(options).report(new Error(`${insteadOf}; using the folder ${path}`));
  return new FileDiscovery({ ...options, rootPath: path, isOwn: true });
};

/** Message about the folder that processes without a named folder share. */
export async function fileRoot({ fileKv }: Pick<FleetSettings, 'fileKv'>): Promise<string> {
  return fileKv ?? (await userFolder()).path;
}

/** Discovery through a folder that processes of one machine share. */
export class FileDiscovery extends LeasedDiscovery<OwnedFile> implements Discovery {
  readonly backend = 'file';
  readonly meetingPlace: string | undefined;
  readonly meetsDynamo: boolean;
  readonly #rootPath: string;
  /** If the operator named the folder, the operator is responsible for which processes can write to it. */
  readonly #isOwn: boolean;
  /** Folders of Stator's records, and of Dynamo's. */
  readonly #own: ReadonlyMap<Bucket, Folder>;
  readonly #dynamo: ReadonlyMap<Bucket, Folder>;
  readonly #loadsFolder: Folder;
  #loadsReading: 'none' | 'opening' | 'following' = 'none';
  readonly #serial = new Semaphore(1);
  readonly #orders: BucketFolder;
  /** The watches of records report a folder that cannot be read. */
  readonly #loadsReader: FolderReader = {
    apply: (texts) => this.board.show(new Map([...texts].map(([key, text]) => [key, Buffer.from(text, 'base64')]))),
    fail: () => {},
  };
  /** Name of the file that reports the loads of this process's workers, and its content; empty = there is none. */
  readonly #loadsKey: string;
  #writtenLoads: Uint8Array = new Uint8Array();

  constructor(options: FileDiscoveryOptions) {
    super(withDefaults(options));
    this.#rootPath = options.rootPath;
    this.#isOwn = options.isOwn === true;
    this.meetingPlace = this.#isOwn ? this.#rootPath : undefined;
    this.meetsDynamo = !this.#isOwn;
    const { clock, ttlMs, report, random } = this.base;
    const pollMs = Math.min(options.pollMs ?? POLL_MS, ttlMs / 2);
    const { rootPath } = options;
    const open = (part: Omit<BucketFolderOptions, 'rootPath' | 'clock'>): Folder => {
      const folder = new BucketFolder({ rootPath, clock, ...part });
      return { folder, follower: new FolderFollower({ folder, clock, pollMs, report }) };
    };
    const foreign = { ttlMs: options.dynamoTtlMs ?? DYNAMO_TTL_MS, isForeign: true, read: fromDynamo };
    this.#own = new Map(BUCKETS.map((bucket) => [bucket, open({ bucket: `${ROOT}/${bucket}`, ttlMs })]));
    this.#dynamo = new Map(BUCKETS.map((bucket) => [bucket, open({ bucket, ...foreign })]));
    this.#loadsFolder = open({ bucket: LOADS, ttlMs });
    this.#orders = new BucketFolder({ rootPath, bucket: ORDERS, clock, ttlMs });
    this.#loadsKey = `process/${random.instanceId()}`;
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const file = this.#fileOf(record);
    await this.#serial.run(async () => {
      this.assertUsable(signal);
      const sentAtMs = this.base.clock.nowMs();
      await this.#attempt('write', () => file.folder.write(file.key, file.text));
      this.owned.set(nameOf(file), file);
      this.keeper.begin(sentAtMs);
    }, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const file = this.#fileOf(record);
    await this.#serial.run(async () => {
      if (!this.owned.has(nameOf(file))) return;
      await this.#attempt('remove from', () => file.folder.remove(file.key));
      this.owned.delete(nameOf(file));
      if (this.dropLoad(record.instance_id)) this.loadsChanged();
    }, signal);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.assertUsable(signal);
    const texts = await this.#attempt('read', async () => {
      const found = new Map<string, string>();
      for (const { folder } of this.#foldersOf(query)) {
        await folder.create();
        for (const [key, text] of await folder.read()) found.set(key, text);
      }
      return found;
    });
    signal?.throwIfAborted();
    return recordsUnder(texts, query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.base.report);
    const folders = this.#foldersOf(query);
    const { parts } = new JoinedReader(watcher, folders.length);
    const close = (): void => {
      watcher.close();
      for (const [at, { follower }] of folders.entries()) follower.delete(parts[at] as FolderReader); // as many
    };
    signal?.addEventListener('abort', close, { once: true });
    try {
      await this.#attempt('watch', async () => {
        for (const [at, { follower }] of folders.entries()) await follower.add(parts[at] as FolderReader);
      });
    } catch (thrown) {
      close();
      throw thrown;
    } finally {
      signal?.removeEventListener('abort', close);
      if (signal?.aborted) close(); // also if `add` went on after the abort
    }
    this.assertUsable(signal);
    return { close };
  }

  async refresh(maxAgeMs: number, signal: AbortSignal = new AbortController().signal): Promise<void> {
    this.assertUsable(signal);
    const bounds = { clock: this.base.clock, timeoutMs: REFRESH_TIMEOUT_MS, signal };
    const followers = this.#followers;
    const isDone = await forAtMost(bounds, async () => {
      await Promise.all(followers.map((follower) => follower.refresh(maxAgeMs)));
    });
    if (isDone) return;
    const failure = this.#toError('read', `no answer within ${REFRESH_TIMEOUT_MS} ms`);
    for (const follower of followers) follower.tellFailing(failure);
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    const watch = this.board.add(listener);
    if (this.#loadsReading === 'none') void this.#followLoads(); // never rejects
    return {
      close: () => {
        watch.close();
        this.#restLoads();
      },
    };
  }

  async orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]> {
    const text = orderText(order);
    const wanted = new Set(ids);
    const records = await this.list({ bucket: 'v1/instances', prefix: '' }, signal);
    const workers = new Set(records.filter((record) => isOrdered(record, wanted)).map((record) => record.instance_id));
    await this.#attempt('write', async () => {
      for (const id of workers) await this.#orders.write(orderKey(id), text);
      if (workers.size > 0) await this.#orders.read(); // removes the orders of processes that were killed
    });
    return [...workers];
  }

  /** Closes the handle. If the folder is unreachable, the remaining files expire; this is reported, not thrown. */
  async close(): Promise<void> {
    if (!this.beginClosing()) return;
    for (const follower of this.#followers) follower.close();
    await this.#serial.run(async () => {
      const owned = [...this.owned.values()];
      const ids = this.#ownIds();
      this.owned.clear();
      try {
        for (const id of ids) await this.#orders.remove(orderKey(id));
        await inBatches(owned, ({ folder, key }) => folder.remove(key));
        if (this.#writtenLoads.length > 0) await this.#loadsFolder.folder.remove(this.#loadsKey);
      } catch (error) {
        this.base.report(this.#toError('remove from', error));
      }
    });
  }

  /** Touches every file of this process, and rewrites those that other processes removed as dead. */
  protected async renew(signal: AbortSignal): Promise<void> {
    for (const name of [...this.owned.keys()]) {
      signal.throwIfAborted();
      await this.#serial.run(async () => {
        const file = this.owned.get(name); // undefined: removed meanwhile
        if (file === undefined || (await file.folder.touch(file.key))) return;
        await file.folder.write(file.key, file.text);
      });
    }
    await this.#serial.run(() => this.#renewLoads());
    for (const id of this.#ownIds()) this.orders.note(await this.#orders.textOf(orderKey(id)));
  }

  get #followers(): readonly FolderFollower[] {
    return [...this.#own.values(), ...this.#dynamo.values(), this.#loadsFolder].map(({ follower }) => follower);
  }

  /** Returns the folders of a query: Stator's own, and that of Dynamo if it asks for it. */
  #foldersOf({ bucket, includesDynamo = false }: DiscoveryQuery): readonly Folder[] {
    return (includesDynamo ? [this.#own, this.#dynamo] : [this.#own]).flatMap((folders) => folders.get(bucket) ?? []);
  }

  /** Returns the file of a record: Dynamo's workers and frontends must find those with its wire. */
  #fileOf(record: DiscoveryRecord): OwnedFile {
    const { bucket, key } = addressOf(record);
    const isDynamo = record.wire === 'dynamo';
    const { folder } = (isDynamo ? this.#dynamo : this.#own).get(bucket) as Folder; // each has all buckets
    return { folder, key, text: isDynamo ? toDynamo(record) : toText(record), instanceId: record.instance_id };
  }

  /** Returns the ids of the workers of this process. */
  #ownIds(): ReadonlySet<string> {
    return new Set([...this.owned.values()].map(({ instanceId }) => instanceId));
  }

  async #followLoads(): Promise<void> {
    this.#loadsReading = 'opening';
    try {
      await this.#attempt('watch', () => this.#loadsFolder.folder.create());
    } catch (error) {
      this.base.report(error as DiscoveryError);
      // the folder can be written by processes that are not trusted
      if ((error as DiscoveryError).code === 'misconfigured') {
        this.#loadsReading = 'none';
        return;
      }
    }
    this.#loadsReading = 'following';
    if (this.board.isFollowed && !this.isClosed) this.#loadsFolder.follower.follow(this.#loadsReader);
    else this.#restLoads();
  }

  /** Stops reading the loads if no listener is left. */
  #restLoads(): void {
    if (this.board.isFollowed || this.#loadsReading !== 'following') return;
    this.#loadsReading = 'none';
    this.#loadsFolder.follower.delete(this.#loadsReader);
  }

  async #renewLoads(): Promise<void> {
    const [{ folder }, { packed }] = [this.#loadsFolder, this.loads];
    if (this.isClosed) return;
    if (packed.length === 0) {
      if (this.#writtenLoads.length > 0) await folder.remove(this.#loadsKey);
    } else if (packed !== this.#writtenLoads || !(await folder.touch(this.#loadsKey))) {
      await folder.write(this.#loadsKey, Buffer.from(packed).toString('base64'));
    }
    this.#writtenLoads = packed;
  }

  async #attempt<T>(verb: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.#isOwn) await makeOwnFolder(this.#rootPath);
      return await work();
    } catch (error) {
      if (error instanceof DiscoveryError) throw error;
      throw this.#toError(verb, error);
    }
  }

  #toError(verb: string, cause: unknown): DiscoveryError {
    const places = this.#rootPath.startsWith(tmpdir()) ? 'TMPDIR or DYN_FILE_KV' : 'DYN_FILE_KV';
    const message = `cannot ${verb} the discovery folder ${this.#rootPath}: ${reasonOf(cause)}. Check ${places}`;
    return new DiscoveryError('unavailable', message, cause);
  }
}

function nameOf({ folder, key }: OwnedFile): string {
  return join(folder.path, key);
}

function orderKey(workerId: string): string {
  return `worker/${workerId}`;
}
