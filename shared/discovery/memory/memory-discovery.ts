import { DiscoveryError } from '../discovery-error.ts';
import { addressOf, encodePrefix } from '../keys.ts';
import { LeaseKeeper } from '../lease-keeper.ts';
import { type DiscoveryBase, type DiscoveryBaseOptions, withDefaults } from '../options.ts';
import { toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Bucket, Discovery, DiscoveryQuery, Watch, WatchListener } from '../types.ts';
import { type HubListener, type MemoryHub, processHub } from './memory-hub.ts';

export interface MemoryDiscoveryOptions extends DiscoveryBaseOptions {
  /** Shared by the handles that are to see each other. @default one hub for the process */
  readonly hub?: MemoryHub;
}

interface OwnedEntry {
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
}

/** Discovery within one process, for tests, the simulator and everything in one process. Changes are told at once. */
export class MemoryDiscovery implements Discovery {
  readonly backend = 'mem';
  readonly #hub: MemoryHub;
  readonly #base: DiscoveryBase;
  readonly #leaseId: string;
  readonly #keeper: LeaseKeeper;
  readonly #owned = new Map<string, OwnedEntry>();
  readonly #listeners = new Set<HubListener>();
  #isClosed = false;

  constructor(options: MemoryDiscoveryOptions = {}) {
    this.#hub = options.hub ?? processHub;
    this.#base = withDefaults(options);
    this.#leaseId = this.#base.random.instanceId();
    this.#keeper = new LeaseKeeper({ ...this.#base, renew: async () => this.#renew() });
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.#assertUsable(signal);
    const { bucket, key } = addressOf(record);
    const entry = { bucket, key, text: toText(record) };
    this.#owned.set(`${bucket}/${key}`, entry);
    if (this.#hub.renew(this.#leaseId, this.#base.ttlMs)) {
      this.#hub.put(bucket, key, this.#leaseId, entry.text);
    } else {
      this.#putAll();
    }
    this.#keeper.begin(this.#base.clock.nowMs());
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.#assertUsable(signal);
    const { bucket, key } = addressOf(record);
    this.#owned.delete(`${bucket}/${key}`);
    this.#hub.remove(bucket, key, this.#leaseId);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.#assertUsable(signal);
    return recordsUnder(this.#hub.texts(query.bucket), query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.#assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.#base.report);
    const onChange: HubListener = (bucket, key) => {
      if (bucket === query.bucket) watcher.applyOne(key, this.#hub.text(bucket, key));
    };
    watcher.apply(this.#hub.texts(query.bucket));
    this.#hub.listen(onChange);
    this.#listeners.add(onChange);
    return {
      close: () => {
        watcher.close();
        this.#hub.unlisten(onChange);
        this.#listeners.delete(onChange);
      },
    };
  }

  /** Watches hear of every change in the same turn: there is nothing to read. */
  async refresh(_maxAgeMs: number, signal?: AbortSignal): Promise<void> {
    this.#assertUsable(signal);
  }

  onLeaseLost(callback: () => void): void {
    this.#keeper.onLost(callback);
  }

  onLeaseRegained(callback: () => void): void {
    this.#keeper.onRegained(callback);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#keeper.stop();
    for (const listener of this.#listeners) this.#hub.unlisten(listener);
    this.#hub.drop(this.#leaseId);
  }

  #renew(): void {
    if (!this.#hub.renew(this.#leaseId, this.#base.ttlMs)) this.#putAll();
  }

  #putAll(): void {
    for (const { bucket, key, text } of this.#owned.values()) this.#hub.put(bucket, key, this.#leaseId, text);
  }

  #assertUsable(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new DiscoveryError('closed', 'this discovery handle was closed');
  }
}
