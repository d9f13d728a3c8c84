import { type Clock, systemClock, type Timer } from '../../clock/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { addressOf, BUCKETS, type Bucket, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { type DiscoveryBaseOptions, type OpenStore, withDefaults } from '../options.ts';
import { fromText, toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Discovery, DiscoveryQuery, DrainOrder, FleetLoads, Watch, WatchListener } from '../types.ts';

interface Entry {
  readonly leaseId: string;
  readonly text: string;
}

/** Called when an entry has changed; reads it with `MemoryHub.text`. */
type HubListener = (bucket: Bucket, key: string) => void;

export interface MemoryDiscoveryOptions extends DiscoveryBaseOptions {
  /** Hub shared by handles that must see each other. @default one hub for the process */
  readonly hub?: MemoryHub;
}

interface OwnedEntry {
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
  readonly instanceId: string;
}

export const openMemory: OpenStore = (_settings, options) => new MemoryDiscovery(options);

/** Discovery within one process, for tests, the simulator and single-process setups. Watches get changes at once. */
export class MemoryDiscovery extends LeasedDiscovery<OwnedEntry> implements Discovery {
  readonly backend = 'mem';
  readonly #hub: MemoryHub;
  readonly #leaseId: string;
  readonly #unlisten = new Set<() => void>();
  #unlistenToLoads: (() => void) | undefined;
  readonly #showLoads = (): void => this.board.show(this.#hub.loads());

  constructor(options: MemoryDiscoveryOptions = {}) {
    super(withDefaults(options));
    this.#hub = options.hub ?? processHub;
    this.#leaseId = this.base.random.instanceId();
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const { bucket, key } = addressOf(record);
    const entry = { bucket, key, text: toText(record), instanceId: record.instance_id };
    this.owned.set(`${bucket}/${key}`, entry);
    if (this.#hub.renew(this.#leaseId, this.base.ttlMs)) {
      this.#hub.put(bucket, key, this.#leaseId, entry.text);
      this.loadsChanged();
    } else {
      this.#putAll();
    }
    this.keeper.begin(this.base.clock.nowMs());
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const { bucket, key } = addressOf(record);
    this.owned.delete(`${bucket}/${key}`);
    this.#hub.remove(bucket, key, this.#leaseId);
    if (this.dropLoad(record.instance_id)) this.loadsChanged();
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.assertUsable(signal);
    return recordsUnder(this.#hub.texts(query.bucket), query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.base.report);
    const onChange: HubListener = (bucket, key) => {
      if (bucket === query.bucket) watcher.applyOne(key, this.#hub.text(bucket, key));
    };
    watcher.apply(this.#hub.texts(query.bucket));
    const unlisten = this.#hub.listen(onChange);
    this.#unlisten.add(unlisten);
    return {
      close: () => {
        watcher.close();
        unlisten();
        this.#unlisten.delete(unlisten);
      },
    };
  }

  /** Resolves at once: watches hear of every change in the same turn, so there is nothing to read. */
  async refresh(_maxAgeMs: number, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    this.#unlistenToLoads ??= this.#hub.listenToLoads(this.#showLoads);
    this.#showLoads();
    return this.board.add(listener);
  }

  async orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]> {
    this.assertUsable(signal);
    return this.#hub.orderDrain(new Set(ids), orderText(order));
  }

  async close(): Promise<void> {
    if (!this.beginClosing()) return;
    for (const unlisten of this.#unlisten) unlisten();
    this.#unlistenToLoads?.();
    this.#hub.drop(this.#leaseId);
  }

  protected async renew(): Promise<void> {
    if (!this.#hub.renew(this.#leaseId, this.base.ttlMs)) this.#putAll();
    this.orders.note(this.#hub.orderTo(this.#leaseId));
  }

  protected override loadsChanged(): void {
    this.#hub.putLoads(this.#leaseId, this.loads.packed);
  }

  #putAll(): void {
    for (const { bucket, key, text } of this.owned.values()) this.#hub.put(bucket, key, this.#leaseId, text);
    this.loadsChanged();
  }
}

/**
 * Store of the memory back end: entries under leases that expire on the hub's clock. Handles that share a hub see each
 * other. If a listener changes the hub, all listeners first get the earlier change, then the new one.
 */
export class MemoryHub {
  readonly #clock: Clock;
  readonly #entries = new Map<Bucket, Map<string, Entry>>(BUCKETS.map((bucket) => [bucket, new Map()]));
  readonly #expiries = new Map<string, Timer>(); // by lease id
  readonly #loads = new Map<string, Uint8Array>(); // packed, by lease id
  readonly #orders = new Map<string, string>(); // to drain, by lease id
  readonly #listeners = new Set<HubListener>();
  readonly #loadListeners = new Set<() => void>();
  readonly #changes: (readonly [Bucket, string])[] = []; // emptied before `put` and its like return
  #isTelling = false;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Extends the lease, or creates it. Returns false if it is new, because everything that it held before is gone. */
  renew(leaseId: string, ttlMs: number): boolean {
    const previous = this.#expiries.get(leaseId);
    previous?.cancel();
    this.#expiries.set(
      leaseId,
      this.#clock.after(ttlMs, () => this.drop(leaseId)),
    );
    return previous !== undefined;
  }

  put(bucket: Bucket, key: string, leaseId: string, text: string): void {
    this.#bucket(bucket).set(key, { leaseId, text });
    this.#tell([[bucket, key]]);
  }

  /** Removes the entry if the lease holds it. */
  remove(bucket: Bucket, key: string, leaseId: string): void {
    if (this.#bucket(bucket).get(key)?.leaseId !== leaseId) return;
    this.#bucket(bucket).delete(key);
    this.#tell([[bucket, key]]);
  }

  /** Ends the lease and removes everything under it. */
  drop(leaseId: string): void {
    this.#expiries.get(leaseId)?.cancel();
    this.#expiries.delete(leaseId);
    this.#orders.delete(leaseId);
    if (this.#loads.delete(leaseId)) this.#tellLoads();
    const removed: (readonly [Bucket, string])[] = [];
    for (const [bucket, entries] of this.#entries) {
      for (const [key, entry] of entries) {
        if (entry.leaseId !== leaseId) continue;
        entries.delete(key);
        removed.push([bucket, key]);
      }
    }
    this.#tell(removed);
  }

  /** Orders the processes of workers to drain. Returns the ids of these workers. */
  orderDrain(ids: ReadonlySet<string>, order: string): readonly string[] {
    const ordered = new Set<string>();
    for (const [key, { leaseId, text }] of this.#bucket('v1/instances')) {
      const record = fromText(text, 'v1/instances', key);
      if (record === undefined || !isOrdered(record, ids)) continue;
      this.#orders.set(leaseId, order);
      ordered.add(record.instance_id);
    }
    return [...ordered];
  }

  /** Returns the order to the process with that lease. */
  orderTo(leaseId: string): string | undefined {
    return this.#orders.get(leaseId);
  }

  /** Sets the packed loads of the workers under a lease; no bytes = no loads. Ignored if there is no such lease. */
  putLoads(leaseId: string, packed: Uint8Array): void {
    if (!this.#expiries.has(leaseId) || (this.#loads.get(leaseId)?.length ?? 0) + packed.length === 0) return;
    if (packed.length === 0) this.#loads.delete(leaseId);
    else this.#loads.set(leaseId, packed);
    this.#tellLoads();
  }

  /** Packed loads by lease id. */
  loads(): ReadonlyMap<string, Uint8Array> {
    return new Map(this.#loads);
  }

  /** Adds a listener. Returns the function that removes it. */
  listenToLoads(listener: () => void): () => void {
    this.#loadListeners.add(listener);
    return () => this.#loadListeners.delete(listener);
  }

  text(bucket: Bucket, key: string): string | undefined {
    return this.#bucket(bucket).get(key)?.text;
  }

  /** Every entry of the bucket, by key. */
  texts(bucket: Bucket): ReadonlyMap<string, string> {
    return new Map([...this.#bucket(bucket)].map(([key, { text }]) => [key, text]));
  }

  /** Adds a listener. Returns the function that removes it. */
  listen(listener: HubListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #bucket(bucket: Bucket): Map<string, Entry> {
    const entries = this.#entries.get(bucket);
    if (entries === undefined) throw new Error(`unknown discovery bucket ${bucket}`);
    return entries;
  }

  #tellLoads(): void {
    for (const listener of this.#loadListeners) listener();
  }

  #tell(changes: readonly (readonly [Bucket, string])[]): void {
    this.#changes.push(...changes);
    if (this.#isTelling) return; // the call further up the stack continues with the added changes
    this.#isTelling = true;
    try {
      for (let change = this.#changes.shift(); change !== undefined; change = this.#changes.shift()) {
        for (const listener of this.#listeners) listener(...change);
      }
    } finally {
      this.#isTelling = false;
    }
  }
}

/** Hub that handles of this process share unless they get another one. */
const processHub = new MemoryHub();
