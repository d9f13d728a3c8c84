import { forAtMost, inBatches, Serial } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { addressOf, BUCKETS, encodePrefix } from '../keys.ts';
import { LeaseKeeper } from '../lease-keeper.ts';
import { LoadBoard, OwnLoads } from '../loads.ts';
import { type DiscoveryBase, type DiscoveryBaseOptions, DiscoveryError, withDefaults } from '../options.ts';
import { type DiscoveryRecord, toText } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { OpenStore } from '../stores.ts';
import type { Bucket, Discovery, DiscoveryQuery, FleetLoads, Watch, WatchListener, WorkerLoad } from '../types.ts';
import { BucketFolder, makeOwnFolder, userFolderPath } from './bucket-folder.ts';
import { FolderFollower, type FolderReader } from './folder-follower.ts';

export interface FileDiscoveryOptions extends DiscoveryBaseOptions {
  /**
   * Root folder (`DYN_FILE_KV`), made when absent. Processes that share it see each other, and trust whoever can write it.
   * @default a folder of this user alone below the temporary folder
   */
  readonly rootPath?: string | undefined;
  /** Longest time between two readings while watching. @default 1000, at most half the time to live */
  readonly pollMs?: number;
}

interface OwnedFile {
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
  readonly instanceId: string;
}

const LOADS = 'v1/loads' as const;
type FolderName = Bucket | typeof LOADS;

const POLL_MS = 1000;
/** A folder over a network may hang. */
const REFRESH_TIMEOUT_MS = 1000;

export const openFile: OpenStore = ({ fileKv }, options) => new FileDiscovery({ ...options, rootPath: fileKv });

/** Discovery through a folder that processes of one machine share. */
export class FileDiscovery implements Discovery {
  readonly backend = 'file';
  readonly #base: DiscoveryBase;
  readonly #rootPath: string;
  /** Somebody named the folder, and answers for who can write it. */
  readonly #isShared: boolean;
  readonly #folders: ReadonlyMap<FolderName, BucketFolder>;
  readonly #followers: ReadonlyMap<FolderName, FolderFollower>;
  readonly #keeper: LeaseKeeper;
  readonly #owned = new Map<string, OwnedFile>();
  readonly #serial = new Serial();
  readonly #loads = new OwnLoads();
  /** That the folder cannot be read is told to the watches of records. */
  readonly #loadsReader: FolderReader = {
    apply: (texts) => this.#board.show(new Map([...texts].map(([key, text]) => [key, Buffer.from(text, 'base64')]))),
    fail: () => {},
  };
  readonly #board: LoadBoard;
  /** Name of the file that tells what the workers of this process carry, and what it says; empty = there is none. */
  readonly #loadsKey: string;
  #writtenLoads: Uint8Array = new Uint8Array();
  #isClosed = false;

  constructor(options: FileDiscoveryOptions) {
    this.#base = withDefaults(options);
    this.#rootPath = options.rootPath ?? userFolderPath();
    this.#isShared = options.rootPath !== undefined;
    const { clock, ttlMs, report } = this.#base;
    const pollMs = Math.min(options.pollMs ?? POLL_MS, ttlMs / 2);
    this.#folders = new Map(
      [...BUCKETS, LOADS].map((name) => [name, new BucketFolder(this.#rootPath, name, clock, ttlMs)] as const),
    );
    this.#followers = new Map(
      [...this.#folders].map(([name, folder]) => [name, new FolderFollower({ folder, clock, pollMs, report })]),
    );
    this.#board = new LoadBoard(report);
    this.#loadsKey = `process/${this.#base.random.instanceId()}`;
    this.#keeper = new LeaseKeeper({ ...this.#base, renew: (signal) => this.#renew(signal) });
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.#assertUsable(signal);
    const { bucket, key } = addressOf(record);
    const file: OwnedFile = { bucket, key, text: toText(record), instanceId: record.instance_id };
    await this.#serial.run(async () => {
      this.#assertUsable(signal);
      const sentAtMs = this.#base.clock.nowMs();
      await this.#attempt('write', () => this.#folder(bucket).write(key, file.text));
      this.#owned.set(`${bucket}/${key}`, file);
      this.#keeper.begin(sentAtMs);
    }, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.#assertUsable(signal);
    const { bucket, key } = addressOf(record);
    await this.#serial.run(async () => {
      if (!this.#owned.has(`${bucket}/${key}`)) return;
      await this.#attempt('remove from', () => this.#folder(bucket).remove(key));
      this.#owned.delete(`${bucket}/${key}`);
      if ([...this.#owned.values()].some(({ instanceId }) => instanceId === record.instance_id)) return;
      if (this.#loads.delete(record.instance_id)) this.#keeper.hasten();
    }, signal);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.#assertUsable(signal);
    const texts = await this.#attempt('read', async () => {
      await this.#folder(query.bucket).create();
      return this.#folder(query.bucket).read();
    });
    signal?.throwIfAborted();
    return recordsUnder(texts, query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.#assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.#base.report);
    const follower = this.#follower(query.bucket);
    const close = (): void => {
      watcher.close();
      follower.delete(watcher);
    };
    signal?.addEventListener('abort', close, { once: true });
    try {
      await this.#attempt('watch', () => follower.add(watcher));
    } finally {
      signal?.removeEventListener('abort', close);
      if (signal?.aborted) close(); // also when `add` went on after the abort
    }
    this.#assertUsable(signal);
    return { close };
  }

  async refresh(maxAgeMs: number, signal: AbortSignal = new AbortController().signal): Promise<void> {
    this.#assertUsable(signal);
    const bounds = { clock: this.#base.clock, timeoutMs: REFRESH_TIMEOUT_MS, signal };
    const followers = [...this.#followers.values()];
    const isDone = await forAtMost(bounds, async () => {
      await Promise.all(followers.map((follower) => follower.refresh(maxAgeMs)));
    });
    if (isDone) return;
    const failure = this.#toError('read', `no answer within ${REFRESH_TIMEOUT_MS} ms`);
    for (const follower of followers) follower.tellFailing(failure);
  }

  setLoad(instanceId: string, load: WorkerLoad): void {
    if (this.#isClosed) return;
    try {
      if (this.#loads.set(instanceId, load)) this.#keeper.hasten();
    } catch (error) {
      this.#base.report(error as RangeError);
    }
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.#assertUsable(undefined);
    if (!this.#board.isFollowed) void this.#followLoads(); // never rejects
    return this.#board.add(listener);
  }

  onLeaseLost(callback: () => void): void {
    this.#keeper.onLost(callback);
  }

  onLeaseRegained(callback: () => void): void {
    this.#keeper.onRegained(callback);
  }

  /** What cannot be removed, because the folder is away, expires; that is reported, not thrown. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#keeper.stop();
    for (const follower of this.#followers.values()) follower.close();
    this.#board.close();
    await this.#serial.run(async () => {
      const owned = [...this.#owned.values()];
      this.#owned.clear();
      try {
        await inBatches(owned, ({ bucket, key }) => this.#folder(bucket).remove(key));
        if (this.#writtenLoads.length > 0) await this.#folder(LOADS).remove(this.#loadsKey);
      } catch (error) {
        this.#base.report(this.#toError('remove from', error));
      }
    });
  }

  /** Touches every file of this process and writes again those that others took for dead. */
  async #renew(signal: AbortSignal): Promise<void> {
    for (const name of [...this.#owned.keys()]) {
      signal.throwIfAborted();
      await this.#serial.run(async () => {
        const file = this.#owned.get(name); // undefined: removed meanwhile
        if (file === undefined || (await this.#folder(file.bucket).touch(file.key))) return;
        await this.#folder(file.bucket).write(file.key, file.text);
      });
    }
    await this.#serial.run(() => this.#renewLoads());
  }

  async #followLoads(): Promise<void> {
    try {
      await this.#attempt('watch', () => this.#folder(LOADS).create());
    } catch (error) {
      this.#base.report(error as DiscoveryError);
      if ((error as DiscoveryError).code === 'misconfigured') return; // who can write it is not to be trusted
    }
    if (this.#board.isFollowed) this.#follower(LOADS).follow(this.#loadsReader);
  }

  async #renewLoads(): Promise<void> {
    const [folder, { packed }] = [this.#folder(LOADS), this.#loads];
    if (this.#isClosed) return;
    if (packed.length === 0) {
      if (this.#writtenLoads.length > 0) await folder.remove(this.#loadsKey);
    } else if (packed !== this.#writtenLoads || !(await folder.touch(this.#loadsKey))) {
      await folder.write(this.#loadsKey, Buffer.from(packed).toString('base64'));
    }
    this.#writtenLoads = packed;
  }

  async #attempt<T>(verb: string, work: () => Promise<T>): Promise<T> {
    try {
      if (!this.#isShared) await makeOwnFolder(this.#rootPath);
      return await work();
    } catch (error) {
      if (error instanceof DiscoveryError) throw error;
      throw this.#toError(verb, error);
    }
  }

  #toError(verb: string, cause: unknown): DiscoveryError {
    const message = `cannot ${verb} the discovery folder ${this.#rootPath}: ${reasonOf(cause)}. Check DYN_FILE_KV`;
    return new DiscoveryError('unavailable', message, cause);
  }

  #folder(bucket: FolderName): BucketFolder {
    return at(this.#folders, bucket);
  }

  #follower(bucket: FolderName): FolderFollower {
    return at(this.#followers, bucket);
  }

  #assertUsable(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new DiscoveryError('closed', 'this discovery handle was closed');
  }
}

function at<T>(map: ReadonlyMap<FolderName, T>, bucket: FolderName): T {
  const value = map.get(bucket);
  if (value === undefined) throw new Error(`unknown discovery bucket ${bucket}`);
  return value;
}
