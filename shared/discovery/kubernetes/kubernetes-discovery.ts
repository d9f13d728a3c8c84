import { forAtMost, inBatches, Semaphore, withDeadline } from '../../concurrency/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { addressOf, type Bucket, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { withDefaults } from '../options.ts';
import { fromText, toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { Discovery, DiscoveryQuery, DrainOrder, FleetLoads, Watch, WatchListener } from '../types.ts';
import { type StoredRecord, storedOf } from './dynamo-data.ts';
import { noIdentity } from './identity.ts';
import { KubeClient, MERGE } from './kube-client.ts';
import { KubeFailure, NO_ANSWER, toKubeError } from './kube-errors.ts';
import { LoadsReader, LoadsWriter } from './lease-loads.ts';
import { DISCOVERED, LOADS_SELECTOR, nameOf, pathsIn, readyInPod, readyInSlice } from './objects.ts';
import type { KubernetesDiscoveryOptions } from './options.ts';
import { orderPatch } from './own-object.ts';
import { type FollowedObjects, Reflector, type ReflectorListener } from './reflector.ts';
import { Registration } from './registration.ts';
import { type OwnProcess, WorkerJoin } from './worker-join.ts';

/** A record as it is stored. */
interface OwnedRecord {
  readonly stored: StoredRecord;
  readonly instanceId: string;
}

/** One watch of this handle. */
interface OpenQuery {
  readonly watcher: SnapshotWatcher;
  readonly includesDynamo: boolean;
}

/** Longest wait for the server in a refresh, and in `close`. */
const REFRESH_TIMEOUT_MS = 1000;
const CLOSE_TIMEOUT_MS = 2000;
const LOADS_PERIOD_MS = 10_000;

/**
 * Discovery through the API of Kubernetes. A process registers in an object that its pod owns, and others see it while
 * the pod is ready. So the kubelet judges who lives, and nothing is renewed: a process that has told everything costs
 * the server one open watch. While the server is away, all processes keep what they know.
 */
export class KubernetesDiscovery extends LeasedDiscovery<OwnedRecord> implements Discovery {
  readonly backend = 'kubernetes';
  readonly #client: KubeClient;
  readonly #options: KubernetesDiscoveryOptions;
  readonly #paths: ReturnType<typeof pathsIn>;
  /** Object of this process; undefined if it does not know its pod. */
  readonly #registration: Registration | undefined;
  readonly #loadsWriter: LoadsWriter | undefined;
  readonly #join: WorkerJoin;
  readonly #ready: Reflector;
  readonly #workers: Reflector;
  readonly #queries = new Set<OpenQuery>();
  /** Reflectors that the watches need, while they fail. */
  readonly #failing = new Set<Reflector>();
  readonly #serial = new Semaphore(1);
  readonly #loadsReader: LoadsReader;
  #leases: Reflector | undefined;

  constructor(options: KubernetesDiscoveryOptions) {
    super(withDefaults(options));
    this.#options = options;
    const { clock } = this.base;
    this.#client = new KubeClient({ access: options.access, clock });
    this.#paths = pathsIn(options.namespace);
    this.#registration = this.#newRegistration();
    this.#loadsWriter = this.#newLoadsWriter();
    this.#join = new WorkerJoin(({ bucket, isDynamo }, key, text) => {
      for (const { watcher, includesDynamo } of this.#queries) {
        if (watcher.bucket === bucket && (includesDynamo || !isDynamo)) watcher.applyOne(key, text);
      }
      if (this.#leases !== undefined) this.#loadsReader.showSoon();
    });
    this.#loadsReader = new LoadsReader(clock, this.board, () => this.#join.names);
    this.#ready = this.#followReady();
    this.#workers = this.#follow(
      { path: this.#paths.workers },
      {
        show: (objects) => this.#join.showWorkers(objects),
        change: (object, isGone) => this.#join.changeWorker(object, isGone),
      },
      true,
    );
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const registration = this.#registration;
    if (registration === undefined) throw noIdentity();
    const name = nameIn(record);
    await this.#serial.run(async () => {
      this.assertUsable(signal);
      registration.assertOwn();
      const sentAtMs = this.base.clock.nowMs();
      const before = this.owned.get(name);
      this.owned.set(name, { stored: storedOf(record, toText), instanceId: record.instance_id });
      await this.#applyOr(() => this.#restore(name, before), 'write', registration, signal);
      this.keeper.begin(sentAtMs);
      registration.follow();
    }, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.assertUsable(signal);
    const registration = this.#registration;
    if (registration === undefined) return; // it has put nothing
    const name = nameIn(record);
    await this.#serial.run(async () => {
      const before = this.owned.get(name);
      if (before === undefined) return;
      this.owned.delete(name);
      if (!registration.isReplaced) {
        await this.#applyOr(() => this.#restore(name, before), 'remove from', registration, signal);
      }
      if (this.dropLoad(record.instance_id)) this.loadsChanged();
    }, signal);
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    this.assertUsable(signal);
    const { bucket, prefix, includesDynamo = false } = query;
    await this.#attempt('read', signal, (ending) => this.#catchUp(ending));
    return recordsUnder(this.#join.textsOf(bucket, includesDynamo), bucket, encodePrefix(prefix));
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    this.assertUsable(signal);
    const { bucket, includesDynamo = false } = query;
    const watcher = new SnapshotWatcher(query, listener, this.base.report);
    const isCurrent = this.#ready.isWatching && this.#workers.isWatching;
    if (!isCurrent) await this.#attempt('watch', signal, (ending) => this.#catchUp(ending));
    this.assertUsable(signal);
    watcher.apply(this.#join.textsOf(bucket, includesDynamo));
    const open = { watcher, includesDynamo };
    this.#queries.add(open);
    this.#ready.start();
    this.#workers.start();
    return {
      close: () => {
        watcher.close();
        this.#queries.delete(open);
      },
    };
  }

  async refresh(maxAgeMs: number, signal: AbortSignal = new AbortController().signal): Promise<void> {
    this.assertUsable(signal);
    const watched = this.#queries.size > 0 ? [this.#ready, this.#workers] : [];
    const followed = this.#leases === undefined ? watched : [...watched, this.#leases];
    await Promise.all(
      followed.filter((each) => !this.#isFresh(each, maxAgeMs)).map((each) => this.#refreshOne(each, signal)),
    );
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    if (this.#leases === undefined) {
      this.#leases = this.#follow(
        { path: this.#paths.leases, labelSelector: LOADS_SELECTOR },
        this.#loadsReader,
        false,
      );
      for (const reflector of [this.#leases, this.#ready, this.#workers]) reflector.start();
    }
    return this.board.add(listener);
  }

  async orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]> {
    this.assertUsable(signal);
    const text = orderText(order);
    return this.#attempt('write', signal, async (ending) => {
      await this.#catchUp(ending);
      const ordered = this.#workersOf(new Set(ids));
      const processes = new Map([...ordered.values()].map(({ name, process }) => [name, process]));
      const gone = new Set<string>();
      await inBatches([...processes], async ([name, process]) => {
        if (!(await this.#giveOrder(name, orderPatch(process, text), ending))) gone.add(name);
      });
      return [...ordered].filter(([, { name }]) => !gone.has(name)).map(([id]) => id);
    });
  }

  /** Closes the handle. If the server cannot be reached, the objects go with the pod; this is reported, not thrown. */
  async close(): Promise<void> {
    if (!this.beginClosing()) return;
    for (const part of [this.#ready, this.#workers, this.#leases, this.#registration, this.#loadsReader]) part?.close();
    await this.#serial.run(async () => {
      this.owned.clear();
      try {
        await withDeadline({ clock: this.base.clock, timeoutMs: CLOSE_TIMEOUT_MS }, async (ending) => {
          if (this.#registration?.isReplaced) return;
          await this.#registration?.withdraw(ending);
          await this.#loadsWriter?.withdraw(ending);
        });
      } catch (thrown) {
        this.base.report(this.#toError('remove from', thrown));
      }
    });
    this.#client.close();
  }

  /**
   * Writes what has changed, and the object again if it is gone. Otherwise it asks nothing: readiness says that the
   * process lives, and a server that is away changes nothing. So a process loses its lease only if it stood still, or
   * if its object is gone and cannot be written.
   */
  protected async renew(signal: AbortSignal): Promise<void> {
    const registration = this.#registration;
    if (registration?.isGone) {
      await this.#serial.run(async () => {
        if (!this.isClosed && registration.isGone) await registration.apply(this.#records(), signal);
      }, signal);
    }
    if (registration?.isReplaced) return; // the lease of its loads has the same name
    try {
      await this.#loadsWriter?.write(this.loads.packed, signal);
    } catch (thrown) {
      // Loads are only advice, so the lease stays. The next renewal tries again.
      if (!this.isClosed) this.base.report(this.#toError('write loads to', thrown));
    }
  }

  protected override loadsChanged(): void {
    if (this.#loadsWriter?.isUrgent(this.loads.packed)) this.keeper.hasten();
  }

  #newRegistration(): Registration | undefined {
    const { identity } = this.#options;
    if (identity === undefined) return undefined;
    return new Registration({
      client: this.#client,
      identity,
      path: this.#paths.workers,
      process: this.base.random.instanceId(),
      report: this.base.report,
      onOrder: (order) => this.orders.note(order),
      onGone: () => this.keeper.hasten(),
      follow: (objects, listener) => this.#follow(objects, listener, false),
    });
  }

  #newLoadsWriter(): LoadsWriter | undefined {
    const { identity, loadsPeriodMs: periodMs = LOADS_PERIOD_MS } = this.#options;
    if (identity === undefined) return undefined;
    const { clock } = this.base;
    return new LoadsWriter({ client: this.#client, clock, identity, path: this.#paths.leases, periodMs });
  }

  #records(): ReadonlyMap<string, StoredRecord> {
    return new Map([...this.owned].map(([name, { stored }]) => [name, stored]));
  }

  /** Writes the object; if that fails, undoes the change of what is owned. */
  async #applyOr(undo: () => void, verb: string, registration: Registration, signal?: AbortSignal): Promise<void> {
    try {
      await this.#attempt(verb, signal, (ending) => registration.apply(this.#records(), ending));
    } catch (thrown) {
      undo();
      throw thrown;
    }
  }

  #restore(name: string, before: OwnedRecord | undefined): void {
    if (before === undefined) this.owned.delete(name);
    else this.owned.set(name, before);
  }

  /** A process that lasts hears each change on its watch within milliseconds; one that is frozen must have read. */
  #isFresh(reflector: Reflector, maxAgeMs: number): boolean {
    if (maxAgeMs <= 0) return false;
    const { isLasting = true } = this.#options;
    return isLasting ? reflector.isWatching : reflector.ageMs <= maxAgeMs;
  }

  async #refreshOne(reflector: Reflector, signal: AbortSignal): Promise<void> {
    const limit = { clock: this.base.clock, timeoutMs: REFRESH_TIMEOUT_MS, signal };
    try {
      const isDone = await forAtMost(limit, (ending) => reflector.catchUp(ending));
      if (!isDone) throw new KubeFailure(NO_ANSWER, `no answer within ${REFRESH_TIMEOUT_MS} ms`);
    } catch (thrown) {
      signal.throwIfAborted();
      if (reflector !== this.#leases) this.#fail(reflector, thrown); // what is known stays
      reflector.readSoon(); // it tells when the server is back
    }
  }

  /** Returns the workers that an order to `ids` includes, each with its process. */
  #workersOf(ids: ReadonlySet<string>): ReadonlyMap<string, OwnProcess> {
    const bucket: Bucket = 'v1/instances';
    const workers = new Map<string, OwnProcess>();
    for (const { name, process, key, text } of this.#join.ownersIn(bucket)) {
      const record = fromText(text, bucket, key);
      if (record !== undefined && isOrdered(record, ids)) workers.set(record.instance_id, { name, process });
    }
    return workers;
  }

  /** Returns false if the process has left. */
  async #giveOrder(name: string, body: object, signal: AbortSignal): Promise<boolean> {
    const path = `${this.#paths.workers}/${name}`;
    try {
      await this.#client.ask({ method: 'PATCH', path, body, contentType: MERGE }, signal);
      return true;
    } catch (thrown) {
      if (thrown instanceof KubeFailure && thrown.isAbsent) return false;
      throw thrown;
    }
  }

  async #catchUp(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#ready.catchUp(signal), this.#workers.catchUp(signal)]);
  }

  #followReady(): Reflector {
    const isByPod = this.#options.mode !== 'container';
    const readyIn = isByPod ? readyInSlice : readyInPod;
    return this.#follow(
      { path: isByPod ? this.#paths.slices : this.#paths.pods, labelSelector: DISCOVERED },
      {
        show: (objects) => this.#join.showReady(new Map(objects.map((each) => [nameOf(each), readyIn(each)]))),
        change: (object, isGone) => this.#join.changeReady(nameOf(object), isGone ? new Map() : readyIn(object)),
      },
      true,
    );
  }

  /** @param isWatched whether the watches of records need it, and report its outages */
  #follow(
    objects: FollowedObjects,
    followed: Pick<ReflectorListener, 'change' | 'show'>,
    isWatched: boolean,
  ): Reflector {
    const listener: ReflectorListener = {
      show: (shown) => followed.show(shown),
      change: (object, isGone) => followed.change(object, isGone),
      fail: (thrown) => {
        if (isWatched) this.#fail(reflector, thrown);
      },
      succeed: () => {
        if (isWatched) this.#succeed(reflector);
      },
    };
    const { clock, random, report } = this.base;
    const toError = (thrown: unknown): Error => this.#toError('watch', thrown);
    const reflector = new Reflector({ client: this.#client, clock, random, objects, listener, report, toError });
    return reflector;
  }

  /** Tells of an outage. It ends when everything has been read again, so that watches hear first what they missed. */
  #fail(reflector: Reflector, thrown: unknown): void {
    if (this.#failing.size === 0) {
      for (const each of [this.#ready, this.#workers]) {
        this.#failing.add(each);
        if (each !== reflector) each.readSoon();
      }
    }
    this.#failing.add(reflector);
    for (const { watcher } of this.#queries) watcher.fail(this.#toError('read', thrown));
  }

  #succeed(reflector: Reflector): void {
    if (!this.#failing.delete(reflector) || this.#failing.size > 0) return;
    for (const { watcher } of this.#queries) watcher.succeed();
  }

  /** Does work with the server, as `attempt` does. Fails with a line for an operator. */
  #attempt<T>(verb: string, signal: AbortSignal | undefined, work: (ending: AbortSignal) => Promise<T>): Promise<T> {
    return this.attempt(work, {
      signal,
      mayPass: (thrown) => thrown instanceof KubeFailure && thrown.mayPass,
      toError: (thrown) => this.#toError(verb, thrown),
    });
  }

  #toError(verb: string, thrown: unknown): Error {
    return toKubeError(verb, this.#client.server, thrown);
  }
}

/** Returns the name of a record in the object of its process. */
function nameIn(record: DiscoveryRecord): string {
  const { bucket, key } = addressOf(record);
  return `${bucket} ${key}`;
}
