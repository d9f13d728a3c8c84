import { tmpdir } from 'node:os';
import { forAtMost, inBatches, Semaphore } from '../../concurrency/index.ts';
import type { FleetSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { addressOf, type Bucket, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { type DiscoveryBaseOptions, DiscoveryError, type OpenStore, withDefaults } from '../options.ts';
import { toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Discovery, DiscoveryQuery, DrainOrder, FleetLoads, Watch, WatchListener } from '../types.ts';
import { BucketFolder } from './bucket-folder.ts';
import { FolderFollower, type FolderReader } from './folder-follower.ts';
import { makeOwnFolder, userFolder } from './user-folder.ts';

export interface FileDiscoveryOptions extends DiscoveryBaseOptions {
  /**
   * Root folder, created if absent. Processes that share it see each other, and trust every process that can write to
   * it.
   */
  readonly rootPath: string;
  /** Whether no setting named the folder, so that it must belong to this user only. @default false */
  readonly isOwn?: boolean;
  /** Longest time between two readings while watching. @default 1000, at most half the time to live */
  readonly pollMs?: number;
}

interface OwnedFile {
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
  readonly instanceId: string;
}

const LOADS = 'v1/loads';
/** Orders to drain, a file for each worker. The worker reads its own with each renewal. */
const ORDERS = 'v1/orders';
type FolderName = Bucket | typeof LOADS;

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
  readonly #rootPath: string;
  /** If the operator named the folder, the operator is responsible for which processes can write to it. */
  readonly #isOwn: boolean;
  readonly #folders: Readonly<Record<FolderName, Folder>>;
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
    const { clock, ttlMs, report, random } = this.base;
    const pollMs = Math.min(options.pollMs ?? POLL_MS, ttlMs / 2);
    const open = (name: FolderName): Folder => {
      const folder = new BucketFolder(this.#rootPath, name, clock, ttlMs);
      return { folder, follower: new FolderFollower({ folder, clock, pollMs, report }) };
    };
    this.#folders = {
      'v1/instances': open('v1/instances'),
      'v1/mdc': open('v1/mdc'),
      'v1/event_channels': open('v1/event_channels'),
      [LOADS]: open(LOADS),
    };
    this.#orders = new BucketFolder(this.#rootPath, ORDERS, clock, ttlMs);
    this.#loadsKey = `process/${random.instanceId()}`;
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const { bucket, key } = addressOf(record);
    const file: OwnedFile = { bucket, key, text: toText(record), instanceId: record.instance_id };
    await this.#serial.run(async () => {
      this.assertUsable(signal);
      const sentAtMs = this.base.clock.nowMs();
      await this.#attempt('write', () => this.#folders[bucket].folder.write(key, file.text));
      this.owned.set(`${bucket}/${key}`, file);
      this.keeper.begin(sentAtMs);
    }, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const { bucket, key } = addressOf(record);
    await this.#serial.run(async () => {
      if (!this.owned.has(`${bucket}/${key}`)) return;
      await this.#attempt('remove from', () => this.#folders[bucket].folder.remove(key));
      this.owned.delete(`${bucket}/${key}`);
      if (this.dropLoad(record.instance_id)) this.loadsChanged();
    }, signal);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.assertUsable(signal);
    const texts = await this.#attempt('read', async () => {
      const { folder } = this.#folders[query.bucket];
      await folder.create();
      return folder.read();
    });
    signal?.throwIfAborted();
    return recordsUnder(texts, query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.base.report);
    const { follower } = this.#folders[query.bucket];
    const close = (): void => {
      watcher.close();
      follower.delete(watcher);
    };
    signal?.addEventListener('abort', close, { once: true });
    try {
      await this.#attempt('watch', () => follower.add(watcher));
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
    const followers = Object.values(this.#folders).map(({ follower }) => follower);
    const isDone = await forAtMost(bounds, async () => {
      await Promise.all(followers.map((follower) => follower.refresh(maxAgeMs)));
    });
    if (isDone) return;
    const failure = this.#toError('read', `no answer within ${REFRESH_TIMEOUT_MS} ms`);
    for (const follower of followers) follower.tellFailing(failure);
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    if (!this.board.isFollowed) void this.#followLoads(); // never rejects
    return this.board.add(listener);
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
    for (const { follower } of Object.values(this.#folders)) follower.close();
    await this.#serial.run(async () => {
      const owned = [...this.owned.values()];
      const ids = this.#ownIds();
      this.owned.clear();
      try {
        for (const id of ids) await this.#orders.remove(orderKey(id));
        await inBatches(owned, ({ bucket, key }) => this.#folders[bucket].folder.remove(key));
        if (this.#writtenLoads.length > 0) await this.#folders[LOADS].folder.remove(this.#loadsKey);
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
        if (file === undefined || (await this.#folders[file.bucket].folder.touch(file.key))) return;
        await this.#folders[file.bucket].folder.write(file.key, file.text);
      });
    }
    await this.#serial.run(() => this.#renewLoads());
    for (const id of this.#ownIds()) this.orders.note(await this.#orders.textOf(orderKey(id)));
  }

  /** Returns the ids of the workers of this process. */
  #ownIds(): ReadonlySet<string> {
    return new Set([...this.owned.values()].map(({ instanceId }) => instanceId));
  }

  async #followLoads(): Promise<void> {
    try {
      await this.#attempt('watch', () => this.#folders[LOADS].folder.create());
    } catch (error) {
      this.base.report(error as DiscoveryError);
      // the folder can be written by processes that are not trusted
      if ((error as DiscoveryError).code === 'misconfigured') return;
    }
    if (this.board.isFollowed) this.#folders[LOADS].follower.follow(this.#loadsReader);
  }

  async #renewLoads(): Promise<void> {
    const [{ folder }, { packed }] = [this.#folders[LOADS], this.loads];
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

function orderKey(workerId: string): string {
  return `worker/${workerId}`;
}
