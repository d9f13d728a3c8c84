import type { Timer } from '../../clock/index.ts';
import { forAtMost, inBatches, Semaphore, withDeadline } from '../../concurrency/index.ts';
import { STATUS } from '../../grpc/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { fromDynamo } from '../dynamo/read-record.ts';
import { toDynamo } from '../dynamo/write-record.ts';
import { addressOf, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { type OpenStore, withDefaults } from '../options.ts';
import { fromText, toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Discovery, DiscoveryQuery, DrainOrder, FleetLoads, Watch, WatchListener } from '../types.ts';
import { ASK, EtcdClient } from './etcd-client.ts';
import { EtcdFailure, toEtcdError } from './etcd-errors.ts';
import { KeyRange, readRanges, toUtf8 } from './key-range.ts';
import { EtcdLease } from './lease.ts';
import { type EtcdDiscoveryOptions, etcdPlaceOf } from './options.ts';
import { RangeFollower, type RangeListener } from './range-follower.ts';
import { WatchStream } from './watch-stream.ts';

/**
 * Root of all keys of Stator. Those of Dynamo begin with `v1/`; its frontends would try to call the workers that they
 * find there.
 *
 *     stator/v1/instances/{namespace}/{component}/{endpoint}/{id}   a record, like all buckets of records
 *     stator/v1/loads/{lease}                                       packed loads of the workers of a process
 *     stator/v1/orders/{lease}                                      the order to a process to drain
 *
 * Every key ends with the lease of its process.
 */
const ROOT = 'stator/';
const LOADS = `${ROOT}v1/loads/`;
const ORDERS = `${ROOT}v1/orders/`;

/** A record as it is stored. */
interface OwnedKey {
  readonly key: string;
  readonly text: string;
  readonly instanceId: string;
}

/** Longest wait for etcd in a refresh, and in `close`. */
const REFRESH_TIMEOUT_MS = 1000;
const CLOSE_TIMEOUT_MS = 2000;
/** Time for which changes of loads are gathered, because each showing costs as much as there are processes. */
const LOADS_GAP_MS = 100;
/** Operations of one transaction: etcd takes 128 unless it is configured otherwise. */
const OPERATIONS_MAX = 64;
/** Bytes of one transaction: etcd takes 1.5 MiB unless it is configured otherwise. */
const TRANSACTION_BYTES_MAX = 1 << 20;

export const openEtcd: OpenStore = (settings, options) => {
  const { etcdLeaseTtlSecs } = settings;
  const ttl = etcdLeaseTtlSecs === undefined ? {} : { ttlMs: etcdLeaseTtlSecs * 1000 };
  return new EtcdDiscovery({ ...options, ...ttl, ...etcdPlaceOf(settings) });
};

/** Discovery through an etcd cluster, version 3.4 or later. */
export class EtcdDiscovery extends LeasedDiscovery<OwnedKey> implements Discovery {
  readonly backend = 'etcd';
  readonly meetsDynamo = true;
  readonly #client: EtcdClient;
  readonly #lease: EtcdLease;
  readonly #watches: WatchStream;
  readonly #serial = new Semaphore(1);
  #writtenLoads: Uint8Array = new Uint8Array();
  #loadsFollower: RangeFollower<Uint8Array> | undefined;
  /** Time at which changed loads are shown. */
  #loadsDue: Timer | undefined;
  #ordersFollower: RangeFollower<string> | undefined;

  constructor(options: EtcdDiscoveryOptions) {
    super(withDefaults(options));
    const { clock, random, ttlMs, report } = this.base;
    this.#client = new EtcdClient({ ...options, clock });
    this.#lease = new EtcdLease(this.#client, clock, random.instanceId(), ttlMs);
    const toError = (thrown: unknown): Error => this.#toError('read', thrown);
    this.#watches = new WatchStream({ client: this.#client, clock, random, toError, report });
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const owned = ownedKey(record);
    await this.#serial.run(async () => {
      this.assertUsable(signal);
      const sentAtMs = this.base.clock.nowMs();
      await this.#attempt('write', signal, (ending) => this.#write(owned, ending));
      this.owned.set(owned.key, owned);
      this.keeper.begin(sentAtMs);
      this.#followOrders();
    }, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const { key: name } = ownedKey(record);
    await this.#serial.run(async () => {
      if (!this.owned.has(name)) return;
      await this.#attempt('remove from', signal, (ending) =>
        this.#client.ask(ASK.delete, { key: Buffer.from(name) }, ending),
      );
      this.owned.delete(name);
      if (this.dropLoad(record.instance_id)) this.loadsChanged();
    }, signal);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.assertUsable(signal);
    const ranges = rangesOf(query);
    const readings = await this.#attempt('read', signal, (ending) => readRanges(this.#client, ranges, ending));
    for (const [at, range] of ranges.entries()) {
      const reading = readings[at];
      if (reading !== undefined) range.replace(reading, false);
    }
    const texts = new Map(ranges.flatMap((range) => [...range.values()]));
    return recordsUnder(texts, query.bucket, encodePrefix(query.prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.assertUsable(signal);
    const watcher = new SnapshotWatcher(query, listener, this.base.report);
    const follower = this.#followerOf(rangesOf(query), {
      show: (texts) => watcher.apply(texts),
      change: (changes) => {
        for (const [key, text] of changes) watcher.applyOne(key, text);
      },
      fail: (error) => watcher.fail(error),
      succeed: () => watcher.succeed(),
    });
    try {
      await this.#attempt('watch', signal, (ending) => follower.catchUp(ending));
      this.assertUsable(signal);
    } catch (thrown) {
      watcher.close();
      follower.close();
      throw thrown;
    }
    return this.#follow(follower, () => watcher.close());
  }

  async refresh(maxAgeMs: number, signal: AbortSignal = new AbortController().signal): Promise<void> {
    this.assertUsable(signal);
    const { clock } = this.base;
    const followers = [...this.#watches.followers];
    const late = new EtcdFailure(STATUS.DEADLINE_EXCEEDED, `no answer within ${REFRESH_TIMEOUT_MS} ms`);
    await Promise.all(
      followers.map(async (follower) => {
        const catchUp = (ending: AbortSignal) => follower.catchUp(ending, maxAgeMs);
        try {
          const isDone = await forAtMost({ clock, timeoutMs: REFRESH_TIMEOUT_MS, signal }, catchUp);
          if (!isDone) follower.fail(this.#toError('read', late));
        } catch (thrown) {
          signal.throwIfAborted();
          follower.fail(this.#toError('read', thrown)); // what is known stays
        }
      }),
    );
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    if (this.#loadsFollower === undefined) {
      const range = new KeyRange(LOADS, '', (bytes) => bytes);
      const show = (): void => {
        this.#loadsDue?.cancel();
        this.#loadsDue = undefined;
        this.board.show(range.values());
      };
      const change = (): void => {
        this.#loadsDue ??= this.base.clock.after(LOADS_GAP_MS, show);
      };
      this.#loadsFollower = this.#followerOf([range], { show, change, fail: () => {}, succeed: show });
      this.#follow(this.#loadsFollower);
    }
    return this.board.add(listener);
  }

  async orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]> {
    this.assertUsable(signal);
    const text = orderText(order);
    return this.#attempt('write', signal, async (ending) => {
      const workers = await this.#workersOf(new Set(ids), ending);
      const gone = new Set<bigint>();
      await inBatches([...new Set(workers.values())], async (lease) => {
        if (!(await this.#giveOrder(lease, text, ending))) gone.add(lease);
      });
      return [...workers].filter(([, lease]) => !gone.has(lease)).map(([id]) => id);
    });
  }

  /** Closes the handle. If etcd cannot be reached, the keys expire with the lease; this is reported, not thrown. */
  async close(): Promise<void> {
    if (!this.beginClosing()) return;
    this.#watches.close();
    this.#loadsFollower?.close();
    this.#loadsDue?.cancel();
    this.#ordersFollower?.close();
    const limit = { clock: this.base.clock, timeoutMs: CLOSE_TIMEOUT_MS };
    await this.#serial.run(async () => {
      this.owned.clear();
      try {
        await withDeadline(limit, (ending) => this.#lease.revoke(ending));
      } catch (thrown) {
        this.base.report(this.#toError('remove from', thrown));
      }
    });
    this.#client.close();
  }

  /** Renews the lease by one message, and writes changed loads. If the lease is gone, writes everything again. */
  protected async renew(signal: AbortSignal): Promise<void> {
    try {
      const isAlive = this.#lease.isGranted && (await this.#lease.renew(signal));
      await this.#serial.run(async () => {
        if (this.isClosed) return;
        if (isAlive) await this.#renewLoads(signal);
        else await this.#writeAll(signal);
      }, signal);
    } catch (thrown) {
      if (thrown instanceof EtcdFailure && thrown.isLeaseGone) this.#lease.lost(); // the retry grants it again
      throw this.#toError('write', thrown);
    }
  }

  async #write(owned: OwnedKey, signal: AbortSignal): Promise<void> {
    if (!this.#lease.isGranted) await this.#lease.grant(signal);
    try {
      await this.#put(owned.key, Buffer.from(owned.text), signal);
    } catch (thrown) {
      if (!(thrown instanceof EtcdFailure && thrown.isLeaseGone)) throw thrown;
      await this.#writeAll(signal);
      await this.#put(owned.key, Buffer.from(owned.text), signal);
    }
  }

  #put(key: string, value: Uint8Array, signal: AbortSignal) {
    return this.#client.ask(ASK.put, { key: Buffer.from(key), value, lease: this.#lease.id }, signal);
  }

  /** Grants the lease again and writes everything under it: together, as far as a transaction takes it. */
  async #writeAll(signal: AbortSignal): Promise<void> {
    await this.#lease.grant(signal);
    const loads = this.loads.packed;
    const all = [...this.owned.values()].map(({ key, text }) => ({ key, value: Buffer.from(text) }));
    if (loads.length > 0) all.push({ key: this.#loadsKey, value: Buffer.from(loads) });
    for (const part of inParts(all)) {
      const success = part.map(({ key, value }) => ({
        request: {
          case: 'requestPut' as const,
          value: { key: Buffer.from(key), value, lease: this.#lease.id },
        },
      }));
      await this.#client.ask(ASK.transact, { success }, signal);
    }
    this.#writtenLoads = loads;
  }

  async #renewLoads(signal: AbortSignal): Promise<void> {
    const { packed } = this.loads;
    if (packed === this.#writtenLoads || packed.length + this.#writtenLoads.length === 0) return;
    if (packed.length > 0) await this.#put(this.#loadsKey, packed, signal);
    else await this.#client.ask(ASK.delete, { key: Buffer.from(this.#loadsKey) }, signal);
    this.#writtenLoads = packed;
  }

  get #loadsKey(): string {
    return `${LOADS}${this.#lease.id.toString(16)}`;
  }

  /** Hears orders from the first record on: before it, no process can be ordered. */
  #followOrders(): void {
    if (this.#ordersFollower !== undefined || this.isClosed) return;
    const range = new KeyRange(ORDERS, this.#lease.id.toString(16), toUtf8);
    const note = (): void => {
      for (const text of range.values().values()) this.orders.note(text);
    };
    this.#ordersFollower = this.#followerOf([range], { show: note, change: note, fail: () => {}, succeed: () => {} });
    this.#follow(this.#ordersFollower);
  }

  /** Returns the workers that an order to `ids` includes, each with the lease of its process. */
  async #workersOf(ids: ReadonlySet<string>, signal: AbortSignal): Promise<ReadonlyMap<string, bigint>> {
    const workers = new Map<string, bigint>();
    const range = new KeyRange(`${ROOT}v1/instances/`, '', (bytes, key, lease) => {
      const record = fromText(toUtf8(bytes), 'v1/instances', key);
      if (record !== undefined && isOrdered(record, ids)) workers.set(record.instance_id, lease);
    });
    for (const reading of await readRanges(this.#client, [range], signal)) range.replace(reading, false);
    return workers;
  }

  /** Writes an order under the lease of the process that it is for. Returns false if the process has left. */
  async #giveOrder(lease: bigint, text: string, signal: AbortSignal): Promise<boolean> {
    const key = Buffer.from(`${ORDERS}${lease.toString(16)}`);
    try {
      await this.#client.ask(ASK.put, { key, value: Buffer.from(text), lease }, signal);
      return true;
    } catch (thrown) {
      if (thrown instanceof EtcdFailure && thrown.isLeaseGone) return false;
      throw thrown;
    }
  }

  #followerOf<Value>(ranges: readonly KeyRange<Value>[], listener: RangeListener<Value>): RangeFollower<Value> {
    const { clock, ttlMs } = this.base;
    return new RangeFollower({ client: this.#client, clock, ranges, listener, holdMs: ttlMs });
  }

  #follow<Value>(follower: RangeFollower<Value>, onClose: () => void = () => {}): Watch {
    const any = follower as RangeFollower<unknown>; // it is only passed its own ranges
    this.#watches.add(any);
    return {
      close: () => {
        onClose();
        follower.close();
        this.#watches.delete(any);
      },
    };
  }

  /** Does work with the server, as `attempt` does. Fails with a line for an operator. */
  #attempt<T>(verb: string, signal: AbortSignal | undefined, work: (ending: AbortSignal) => Promise<T>): Promise<T> {
    return this.attempt(work, {
      signal,
      mayPass: (thrown) => thrown instanceof EtcdFailure && thrown.isOfMember,
      toError: (thrown) => this.#toError(verb, thrown),
    });
  }

  #toError(verb: string, thrown: unknown): Error {
    return toEtcdError(verb, this.#client.endpoints, thrown);
  }
}

/** Returns a record as it is stored: Dynamo's workers and frontends must find those with its wire. */
function ownedKey(record: DiscoveryRecord): OwnedKey {
  const { bucket, key } = addressOf(record);
  const instanceId = record.instance_id;
  if (record.wire === 'dynamo') return { key: `${bucket}/${key}`, text: toDynamo(record), instanceId };
  return { key: `${ROOT}${bucket}/${key}`, text: toText(record), instanceId };
}

/** Returns the ranges of a query: Stator's own, and those of Dynamo if it asks for them. */
function rangesOf({ bucket, prefix, includesDynamo = false }: DiscoveryQuery): readonly KeyRange<string>[] {
  const encoded = encodePrefix(prefix);
  const own = new KeyRange(`${ROOT}${bucket}/`, encoded, toUtf8);
  if (!includesDynamo) return [own];
  return [own, new KeyRange(`${bucket}/`, encoded, (bytes, key) => fromDynamo(toUtf8(bytes), key))];
}

function* inParts<Put extends { readonly value: Uint8Array }>(puts: readonly Put[]): Generator<readonly Put[]> {
  let [part, bytes]: [Put[], number] = [[], 0];
  for (const put of puts) {
    if (part.length === OPERATIONS_MAX || (part.length > 0 && bytes + put.value.length > TRANSACTION_BYTES_MAX)) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(put);
    bytes += put.value.length;
  }
  if (part.length > 0) yield part;
}
