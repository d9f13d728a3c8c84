import { setMaxListeners } from 'node:events';
import { forAtMost, inBatches, Semaphore, withDeadline } from '../../concurrency/index.ts';
import { isOrdered, orderText } from '../drain-orders.ts';
import { addressOf, encodePrefix } from '../keys.ts';
import { LeasedDiscovery } from '../lease-keeper.ts';
import { type OpenStore, withDefaults } from '../options.ts';
import type { DiscoveryRecord } from '../records.ts';
import { Table } from '../table/table.ts';
import type { TableOptions } from '../table/table-client.ts';
import { InterruptedCall } from '../table/table-errors.ts';
import { TableAhead, TableTime } from '../table/table-time.ts';
import type {
  Catalogue,
  Discovery,
  DiscoveryQuery,
  DrainOrder,
  FleetLoads,
  ShownModels,
  Watch,
  WatchListener,
} from '../types.ts';
import { AskedModels, PartOfModels } from './asked-models.ts';
import { CardWriter, CatalogueBoard, entriesOf, fetchCards, forgetModel, readCatalogue } from './catalogue.ts';
import { CardShelf } from './fleet/cards.ts';
import type { Fleet } from './fleet/members.ts';
import { RecordBook, RecordWatcher } from './fleet/record-book.ts';
import { FleetPoller, type ReadingRequest } from './fleet-poller.ts';
import { FleetReader, type FleetReading } from './fleet-reader.ts';
import { LeaseCleaner } from './lease-cleaner.ts';
import { LeaseLookup } from './lease-lookup.ts';
import { LeaseLiveness } from './lease-scan.ts';
import { LeaseWriter, nameOf, type OwnedRecord, orderLease, toOwned } from './lease-writer.ts';
import type { DynamoDbDiscoveryOptions } from './options.ts';
import { discoveryTablePlace } from './schema.ts';

const STALE_MS_MAX = 60_000;
const STALE_WAIT_MS = 100;
/** Time for which requests do not wait for a table that is slow or unreachable, in a process that does not last. */
const OPEN_MS = 5000;
/** Age of a view from which the process looks for an unknown model in a newer one. */
const CURRENT_MS_MAX = 2000;
const OPERATION_MS_MAX = 10_000;
/** Longest wait at a cold start, short enough that a client hears soon and can retry. */
const COLD_MS_MAX = 2000;
/** Longest wait for one answer, short enough that a cold process can try twice. */
const REQUEST_MS_MAX = 2000;
const COLD_REQUEST_MS_MAX = 1000;

/**
 * Reads of the head per second by all processes that do not follow the fleet. One of them must soon notice that the
 * head is too old.
 */
const CANDIDATES_PER_SECOND = 10;

export const openDynamoDb: OpenStore = (settings, options) => {
  const { discoveryTable: tableName, dynamodbEndpoint, awsRegion } = settings;
  if (tableName === undefined) throw new Error('discovery backend dynamodb needs STATOR_DISCOVERY_TABLE');
  return DynamoDbDiscovery.open({
    ...options,
    tableName,
    ...(dynamodbEndpoint === undefined ? {} : { endpoint: dynamodbEndpoint }),
    ...(awsRegion === undefined ? {} : { region: awsRegion }),
  });
};

/** Discovery through a DynamoDB table. */
export class DynamoDbDiscovery extends LeasedDiscovery<OwnedRecord> implements Discovery {
  readonly backend = 'dynamodb';
  readonly catalogue: Catalogue;
  readonly shownModels: ShownModels | undefined;
  readonly #table: Table;
  readonly #ahead: TableAhead;
  readonly #cards: CardWriter;
  readonly #reader: FleetReader;
  readonly #pollMs: number;
  readonly #operationTimeoutMs: number;
  readonly #refreshTimeoutMs: number;
  readonly #staleMsMax: number;
  readonly #isLasting: boolean;
  readonly #writer: LeaseWriter;
  readonly #poller: FleetPoller;
  readonly #lookup: LeaseLookup;
  readonly #shelf = new CardShelf();
  readonly #book = new RecordBook(this.#shelf);
  readonly #watchers = new Set<RecordWatcher>();
  readonly #models: CatalogueBoard;
  readonly #serial = new Semaphore(1); // puts, removals and registrations
  /** Whether a caller has asked for the fleet. Before that, the process only checks that a view exists. */
  #isFollowed = false;
  readonly #asked: AskedModels | undefined; // undefined = all are shown
  #shardKey: string | undefined;

  /** @param table closed with the handle; first touched by the first operation */
  constructor(table: Table, time: TableTime, options: DynamoDbDiscoveryOptions) {
    super(withDefaults(options));
    const { base } = this;
    const { clock, random, report } = base;
    const { pollMs = 1000, skewMs = 1000, sweepAfterMs = 60_000, isLasting = true } = options;
    const leaseId = random.instanceId();
    const reader = new FleetReader({
      ...{ ...base, table, time, pollMs },
      liveness: new LeaseLiveness(skewMs),
      cleaner: new LeaseCleaner(table, clock, sweepAfterMs),
      holder: leaseId,
      mayGather: isLasting,
    });
    this.#table = table;
    this.#cards = new CardWriter(table, time, clock);
    this.#reader = reader;
    this.#pollMs = pollMs;
    this.#operationTimeoutMs = options.operationTimeoutMs ?? (isLasting ? OPERATION_MS_MAX : COLD_MS_MAX);
    this.#refreshTimeoutMs = options.refreshTimeoutMs ?? 1000;
    this.#staleMsMax = isLasting ? 0 : (options.staleMsMax ?? STALE_MS_MAX);
    this.#isLasting = isLasting;
    if (options.showsAskedModels === true && !isLasting) this.#asked = new AskedModels();
    this.#models = new CatalogueBoard(this.#shelf, report);
    this.#ahead = new TableAhead(time, clock);
    const onOrder = (order: string): void => this.orders.note(order, time.nowMs() - clock.wallMs());
    this.#writer = new LeaseWriter({ ...base, table, time, leaseId, load: () => this.loads.packed, onOrder });
    this.#poller = new FleetPoller({
      ...base,
      periodMs: () => this.#periodMs(),
      read: (request, signal) => this.#readAndShow(request, signal),
      covers: (shardKey) => reader.covers(shardKey),
      explain: (error) => (error instanceof InterruptedCall ? undefined : table.explain(error)),
      onFailing: (failure) => this.#tellFailing(failure),
      openMs: this.#staleMsMax > 0 ? OPEN_MS : 0,
      wants: () => this.#asked?.count ?? 0,
    });
    this.shownModels =
      this.#asked &&
      new PartOfModels(this.#asked, {
        clock,
        timeoutMs: this.#operationTimeoutMs,
        isCurrent: () => this.#poller.isShown(CURRENT_MS_MAX),
        isAway: () => this.#poller.isOpen,
        read: (isFurther, signal) => this.#readOnce({ isExact: false, shardKey: this.#shardKey, isFurther }, signal),
      });
    this.#lookup = new LeaseLookup({
      ...{ ...base, table },
      mayLook: () => !this.#poller.isFailing,
      prepare: (member, signal) => this.#fetchCards(new Map([[member.leaseId, member]]), signal),
      show: (fleet) => this.#showFleet(fleet),
    });
    this.catalogue = {
      watch: (listener) => {
        this.assertUsable();
        this.#follow();
        return this.#models.add(listener);
      },
      list: (signal) => this.#listModels(signal),
      forget: (name, signal) => this.#attempt(signal, (operation) => forgetModel(table, name, operation)),
    };
  }

  /** Loads the SDK. */
  static async open(options: DynamoDbDiscoveryOptions & TableOptions): Promise<DynamoDbDiscovery> {
    const { clock, random } = withDefaults(options);
    const { isLasting = true, requestTimeoutMs = isLasting ? REQUEST_MS_MAX : COLD_REQUEST_MS_MAX } = options;
    const time = new TableTime(clock);
    const table = await Table.open(discoveryTablePlace(options), { clock, random, time, requestTimeoutMs });
    return new DynamoDbDiscovery(table, time, options);
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const owned = toOwned(record);
    const cards = this.#cards;
    await this.#change(signal, async (operation) => {
      const sentAtMs = await this.#writer.ensureLease(operation);
      if (sentAtMs !== undefined) this.keeper.begin(sentAtMs);
      if (owned.card !== undefined) await cards.ensureCard(owned.card, operation);
      await this.#writer.writeRecord(owned, operation);
      this.owned.set(nameOf(owned), owned);
      await this.#tellChange(operation);
      if (owned.card !== undefined) await cards.ensureEntry(owned.card, operation);
    });
    if (this.#isLasting) this.#poller.start();
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const address = addressOf(record);
    await this.#change(signal, async (operation) => {
      if (!this.owned.has(nameOf({ address }))) return;
      await this.#writer.deleteRecord(address, operation);
      this.owned.delete(nameOf({ address }));
      this.dropLoad(record.instance_id); // the lease that reports the change also reports this
      await this.#tellChange(operation);
    });
  }

  async list({ bucket, prefix }: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    await this.#readOnce({ isExact: true, shardKey: undefined }, signal);
    return this.#book.under(bucket, encodePrefix(prefix)).flatMap(({ record }) => record ?? []);
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    const watcher = new RecordWatcher(query, listener, this.base.report);
    // A process that lasts begins with the stored leases. A function begins with the view, because hundreds may start
    // at the same time.
    const isCurrent = this.#isFollowed && this.#poller.isShown(2 * this.#pollMs);
    if (!isCurrent) await this.#readOnce({ isExact: this.#isLasting, shardKey: undefined }, signal);
    this.assertUsable(signal);
    watcher.begin(this.#book);
    this.#watchers.add(watcher);
    this.#follow();
    return {
      close: () => {
        watcher.close();
        this.#watchers.delete(watcher);
      },
    };
  }

  refresh(maxAgeMs: number, signal?: AbortSignal, shardKey?: string): Promise<void> {
    return this.underEither(signal, (operation) => this.#refresh(maxAgeMs, operation, shardKey));
  }

  async #refresh(maxAgeMs: number, operation: AbortSignal, shardKey: string | undefined): Promise<void> {
    operation.throwIfAborted();
    if (!this.#isFollowed) return;
    this.#shardKey = shardKey;
    const doesAsItIs = maxAgeMs > 0 && this.#staleMsMax > 0 && this.#poller.isShown(this.#staleMsMax);
    const timeoutMs = doesAsItIs ? Math.min(STALE_WAIT_MS, this.#refreshTimeoutMs) : this.#refreshTimeoutMs;
    const bounds = { clock: this.base.clock, timeoutMs, signal: operation };
    const isDone = await forAtMost(bounds, (patience) => this.#poller.refresh(maxAgeMs, shardKey, patience));
    if (isDone || doesAsItIs) return;
    this.#poller.gaveUp();
    this.#tellFailing(new Error(`no reading of the discovery table within ${timeoutMs} ms`));
  }

  recheck(instanceId: string): void {
    if (!this.#isLasting) return; // frozen between its requests, it reads only for these
    for (const leaseId of this.#book.holdersOf(instanceId)) this.#lookup.ask(leaseId);
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.assertUsable();
    this.#follow();
    return this.board.add(listener);
  }

  async orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]> {
    const text = orderText({ ...order, deadlineMs: order.deadlineMs + this.#ahead.ms });
    const isCurrent = this.#isFollowed && this.#poller.isShown(2 * this.#pollMs);
    if (!isCurrent) await this.#readOnce({ isExact: false, shardKey: this.#shardKey }, signal);
    const wanted = new Set(ids);
    const holders = this.#book.leasesWith((record) => isOrdered(record, wanted));
    const ordered = new Set<string>(); // an attempt after a failed one writes all orders again
    await this.#attempt(signal, (operation) =>
      inBatches([...holders], async ([leaseId, workers]) => {
        if (!(await orderLease(this.#table, leaseId, text, operation))) return;
        for (const worker of workers) ordered.add(worker);
      }),
    );
    return [...ordered];
  }

  /**
   * Closes the handle. If the table is unreachable, the remaining records expire with the lease; this is reported, not
   * thrown.
   */
  async close(): Promise<void> {
    if (!this.beginClosing()) return;
    this.#poller.close();
    this.#lookup.close();
    this.#watchers.clear();
    this.#models.close();
    const { clock, report } = this.base;
    const patience = new AbortController();
    setMaxListeners(0, patience.signal);
    const timer = clock.after(this.#operationTimeoutMs, () => patience.abort(new Error('closing took too long')));
    try {
      await this.#serial.run(() => this.#writer.withdraw([...this.owned.values()], patience.signal));
      await this.#reader.close(patience.signal);
    } catch (error) {
      report(this.#table.explain(error));
    } finally {
      timer.cancel();
      this.#table.close();
    }
  }

  /** Starts to read the fleet, whether or not a caller asks. */
  #follow(): void {
    if (this.#isFollowed && !this.#isLasting) return;
    const wasFollowed = this.#isFollowed;
    this.#isFollowed = true;
    if (!this.#isLasting) return;
    this.#poller.start();
    if (!wasFollowed) this.#poller.hasten();
  }

  #periodMs(): number {
    if (this.#isFollowed || this.#reader.isGathering) return this.#pollMs;
    return Math.max(this.#pollMs, (1000 * this.#reader.leases) / CANDIDATES_PER_SECOND);
  }

  async #readAndShow({ isExact, shardKey, isFurther }: ReadingRequest, signal: AbortSignal): Promise<void> {
    const { isFailing } = this.#poller;
    const models = this.#asked?.models;
    const reading = isExact
      ? await this.#reader.readExactly(isFailing, signal)
      : await this.#reader.read({ shardKey, isFollowed: this.#isFollowed, isFailing, models, isFurther }, signal);
    if (!this.#isFollowed) return;
    this.#asked?.read(isExact ? undefined : this.#reader.index);
    await this.#show(reading, signal);
    if (reading.isComplete !== false) this.#asked?.shown(models);
  }

  /** Reads the missing cards, then shows everything in one turn. */
  async #show({ fleet, catalogue }: FleetReading, signal: AbortSignal): Promise<void> {
    if (catalogue !== undefined) this.#models.take(catalogue);
    const shown = fleet && (this.#asked?.partOf(fleet) ?? fleet);
    await this.#fetchCards(shown, signal);
    signal.throwIfAborted(); // a later reading has begun
    this.#models.show();
    if (shown !== undefined) this.#showFleet(this.#lookup.with(shown));
  }

  #fetchCards(fleet: Fleet | undefined, signal: AbortSignal): Promise<void> {
    const missing = fleet === undefined ? [] : this.#book.missingCards(fleet);
    const ofCatalogue = this.#models.missingCards((name) => this.#asked?.covers(name) ?? true);
    return fetchCards(this.#table, this.#shelf, [...missing, ...ofCatalogue], signal);
  }

  #showFleet(fleet: Fleet): void {
    const { unreadable } = this.#book;
    const changes = this.#book.show(fleet);
    if (this.#book.unreadable > unreadable) {
      this.base.report(new Error(`${this.#book.unreadable - unreadable} unreadable discovery records in the table`));
    }
    for (const watcher of [...this.#watchers]) watcher.change(changes);
    this.board.show(new Map([...fleet].flatMap(([lease, { load }]) => (load.length === 0 ? [] : [[lease, load]]))));
  }

  #tellFailing(failure: Error): void {
    for (const watcher of this.#watchers) watcher.fail(failure);
  }

  #readOnce(request: ReadingRequest, signal: AbortSignal | undefined): Promise<void> {
    return this.underEither(signal, async (operation) => {
      operation.throwIfAborted();
      this.#isFollowed = true;
      const timeoutMs = this.#operationTimeoutMs;
      const read = (limit: AbortSignal): Promise<void> =>
        this.#table.attempt(timeoutMs, limit, (limited) => this.#poller.readOnce(request, limited));
      if (this.#isLasting) return read(operation);
      const lateMessage = `no reading of the discovery table within ${timeoutMs} ms`;
      await withDeadline({ clock: this.base.clock, timeoutMs, signal: operation, lateMessage }, read);
    });
  }

  async #listModels(signal: AbortSignal | undefined): ReturnType<Catalogue['list']> {
    const table = this.#table;
    return this.#attempt(signal, async (operation) => {
      const stored = await readCatalogue(table, operation, true);
      const missing = stored.map(({ cardSum }) => cardSum).filter((sum) => !this.#shelf.has(sum));
      await fetchCards(table, this.#shelf, missing, operation);
      return entriesOf(stored, this.#shelf);
    });
  }

  protected renew(signal: AbortSignal): Promise<void> {
    return this.underEither(signal, async (operation) => {
      try {
        if (!(await this.#writer.renew(operation))) {
          await this.#serial.run(() => this.#registerAgain(operation), operation);
        }
        const cards = [...this.owned.values()].flatMap(({ card }) => card ?? []);
        for (const card of cards) await this.#cards.ensureCard(card, operation);
      } catch (error) {
        throw this.#table.explain(error);
      }
    });
  }

  async #registerAgain(operation: AbortSignal): Promise<void> {
    const cards = this.#cards;
    const owned = [...this.owned.values()];
    cards.forget();
    for (const { card } of owned) {
      if (card === undefined) continue;
      await cards.ensureCard(card, operation);
      await cards.ensureEntry(card, operation);
    }
    await this.#writer.registerAgain(owned, operation);
  }

  /** Notes that the records have changed. Readers notice it by the lease. */
  async #tellChange(operation: AbortSignal): Promise<void> {
    if (!(await this.#writer.tellChange(operation))) await this.#registerAgain(operation);
  }

  /** Runs changes of the table one after the other, and repeats each while the table is unreachable. */
  #change(signal: AbortSignal | undefined, work: (operation: AbortSignal) => Promise<void>): Promise<void> {
    return this.underEither(signal, (operation) =>
      this.#serial.run(() => this.#table.attempt(this.#operationTimeoutMs, operation, work), operation),
    );
  }

  #attempt<T>(signal: AbortSignal | undefined, work: (operation: AbortSignal) => Promise<T>): Promise<T> {
    return this.underEither(signal, (operation) => this.#table.attempt(this.#operationTimeoutMs, operation, work));
  }
}
