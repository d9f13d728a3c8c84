import { setMaxListeners } from 'node:events';
import { forAtMost, Serial } from '../../concurrency/index.ts';
import { addressOf, encodePrefix } from '../keys.ts';
import { LeaseKeeper } from '../lease-keeper.ts';
import { LoadBoard } from '../loads/load-board.ts';
import { OwnLoads } from '../loads/own-loads.ts';
import { momentOf } from '../moment.ts';
import { type DiscoveryBase, type DiscoveryBaseOptions, DiscoveryError, withDefaults } from '../options.ts';
import { toText } from '../record-text.ts';
import type { DiscoveryRecord } from '../records.ts';
import { recordsUnder, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { OpenStore } from '../stores.ts';
import { Table, type TableOptions } from '../table/table.ts';
import { InterruptedCall } from '../table/table-errors.ts';
import { TableTime } from '../table/table-time.ts';
import type { Discovery, DiscoveryQuery, FleetLoads, Watch, WatchListener, WorkerLoad } from '../types.ts';
import { discoveryTablePlace } from './discovery-table.ts';
import { LeaseLiveness } from './lease-liveness.ts';
import { SnapshotPoller } from './snapshot-poller.ts';
import { Sweeper } from './sweeper.ts';
import { TableReader, type TableReading } from './table-reader.ts';
import { assertFits, type OwnedRecord, TableWriter } from './table-writer.ts';

export interface DynamoDbDiscoveryOptions extends DiscoveryBaseOptions, TableOptions {
  /** Between two readings while watching. @default 1000 */
  readonly pollMs?: number;
  /** Allowance of a first look at a lease for clocks that differ. @default 1000 */
  readonly skewMs?: number;
  /** Longest time that `put`, `remove`, `list` and `watch` try to reach the table. @default 10_000 */
  readonly operationTimeoutMs?: number;
  /** Longest wait for one answer of the table. @default 2000 */
  readonly requestTimeoutMs?: number;
  /** Longest wait of `refresh`. @default 1000 */
  readonly refreshTimeoutMs?: number;
  /**
   * How long a record is seen dead before a watching process deletes it; `Infinity` = never, for a process that may not.
   * @default 60_000
   */
  readonly sweepAfterMs?: number;
}

const POLL_MS = 1000;
const SKEW_MS = 1000;
const OPERATION_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 2000;
const REFRESH_TIMEOUT_MS = 1000;
const SWEEP_AFTER_MS = 60_000;

interface Parts {
  readonly base: DiscoveryBase;
  readonly table: Table;
  readonly writer: TableWriter;
  readonly reader: TableReader;
  readonly sweeper: Sweeper;
  readonly liveness: LeaseLiveness;
  readonly pollMs: number;
  readonly operationTimeoutMs: number;
  readonly refreshTimeoutMs: number;
}

export const openDynamoDb: OpenStore = (settings, { sweeps = true, ...base }) => {
  const { discoveryTable: tableName, dynamodbEndpoint, awsRegion } = settings;
  if (tableName === undefined) throw new Error('discovery backend dynamodb needs STATOR_DISCOVERY_TABLE');
  return DynamoDbDiscovery.open({
    ...base,
    tableName,
    ...(sweeps ? {} : { sweepAfterMs: Number.POSITIVE_INFINITY }),
    ...(dynamodbEndpoint === undefined ? {} : { endpoint: dynamodbEndpoint }),
    ...(awsRegion === undefined ? {} : { region: awsRegion }),
  });
};

/** Discovery through a DynamoDB table. */
export class DynamoDbDiscovery implements Discovery {
  readonly backend = 'dynamodb';
  readonly #parts: Parts;
  readonly #keeper: LeaseKeeper;
  readonly #poller: SnapshotPoller;
  readonly #owned = new Map<string, OwnedRecord>();
  readonly #serial = new Serial(); // puts, removals and registrations
  readonly #loads = new OwnLoads();
  readonly #board: LoadBoard;
  readonly #closing = new AbortController();

  private constructor(parts: Parts) {
    this.#parts = parts;
    const { base, table, sweeper, pollMs } = parts;
    this.#board = new LoadBoard(base.report);
    this.#keeper = new LeaseKeeper({ ...base, renew: (signal) => this.#renew(signal) });
    this.#poller = new SnapshotPoller({
      ...base,
      pollMs,
      read: (scopes, signal) => {
        if (this.#poller.isFailing) parts.liveness.excuseOutage(base.clock.nowMs());
        return parts.reader.read(scopes, signal);
      },
      explain: (error) => (error instanceof InterruptedCall ? undefined : table.explain(error)),
      onReading: ({ dead, loads }, signal) => {
        if (this.#board.isFollowed) this.#board.show(loads);
        return sweeper.sweep(dead, signal);
      },
    });
  }

  /** Loads the SDK. The table itself is first touched by the first operation. */
  static async open(options: DynamoDbDiscoveryOptions): Promise<DynamoDbDiscovery> {
    const base = withDefaults(options);
    const { clock, random, ttlMs } = base;
    const time = new TableTime(clock);
    const requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    const table = await Table.open(discoveryTablePlace(options), { clock, random, time, requestTimeoutMs });
    const liveness = new LeaseLiveness(options.skewMs ?? SKEW_MS);
    return new DynamoDbDiscovery({
      base,
      table,
      liveness,
      writer: new TableWriter({ table, time, clock, ttlMs, leaseId: random.instanceId() }),
      reader: new TableReader({ table, time, clock, liveness }),
      sweeper: new Sweeper(table, clock, options.sweepAfterMs ?? SWEEP_AFTER_MS),
      pollMs: options.pollMs ?? POLL_MS,
      operationTimeoutMs: options.operationTimeoutMs ?? OPERATION_TIMEOUT_MS,
      refreshTimeoutMs: options.refreshTimeoutMs ?? REFRESH_TIMEOUT_MS,
    });
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const owned = { address: addressOf(record), text: toText(record), instanceId: record.instance_id };
    assertFits(owned);
    const { writer } = this.#parts;
    await this.#change(signal, async (operation) => {
      const { namespace } = owned.address;
      const sentAtMs = await writer.ensureLease(namespace, operation);
      if (sentAtMs !== undefined) this.#keeper.begin(sentAtMs);
      await writer.ensureNamespace(namespace, operation);
      await writer.writeRecord(owned, operation);
      this.#owned.set(nameOf(owned), owned);
    });
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const address = addressOf(record);
    await this.#change(signal, async (operation) => {
      await this.#parts.writer.deleteRecord(address, operation);
      this.#owned.delete(nameOf({ address }));
      if ([...this.#owned.values()].some(({ instanceId }) => instanceId === record.instance_id)) return;
      if (this.#loads.delete(record.instance_id)) this.#keeper.hasten();
    });
  }

  async list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]> {
    const encodedPrefix = encodePrefix(query.prefix);
    const reading = await this.#read({ bucket: query.bucket, encodedPrefix }, signal);
    return recordsUnder(reading.texts(query.bucket), query.bucket, encodedPrefix);
  }

  async watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch> {
    const { clock, report } = this.#parts.base;
    const watcher = new SnapshotWatcher(query, listener, report);
    const began = momentOf(clock);
    const reading = await this.#read(watcher, signal);
    this.#closing.signal.throwIfAborted();
    watcher.apply(reading.texts(watcher.bucket));
    this.#poller.add(watcher, began);
    return {
      close: () => {
        watcher.close();
        this.#poller.delete(watcher);
      },
    };
  }

  async refresh(maxAgeMs: number, signal?: AbortSignal): Promise<void> {
    const { base, refreshTimeoutMs: timeoutMs } = this.#parts;
    const bounds = { clock: base.clock, timeoutMs, signal: this.#operation(signal) };
    const isDone = await forAtMost(bounds, (patience) => this.#poller.refresh(maxAgeMs, patience));
    if (!isDone) this.#poller.tellFailing(new Error(`no reading of the discovery table within ${timeoutMs} ms`));
  }

  setLoad(instanceId: string, load: WorkerLoad): void {
    if (this.#closing.signal.aborted) return;
    try {
      if (this.#loads.set(instanceId, load)) this.#keeper.hasten();
    } catch (error) {
      this.#parts.base.report(error as RangeError);
    }
  }

  watchLoads(listener: (loads: FleetLoads) => void): Watch {
    this.#closing.signal.throwIfAborted();
    const { base } = this.#parts;
    const everything = new SnapshotWatcher({ bucket: 'v1/instances', prefix: '' }, { event() {} }, base.report);
    this.#poller.add(everything, { nowMs: Number.NEGATIVE_INFINITY, wallMs: Number.NEGATIVE_INFINITY });
    const watch = this.#board.add(listener);
    return {
      close: () => {
        watch.close();
        this.#poller.delete(everything);
      },
    };
  }

  onLeaseLost(callback: () => void): void {
    this.#keeper.onLost(callback);
  }

  onLeaseRegained(callback: () => void): void {
    this.#keeper.onRegained(callback);
  }

  /** What cannot be withdrawn, because the table is away, expires with the lease; that is reported, not thrown. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new DiscoveryError('closed', 'this discovery handle was closed'));
    this.#keeper.stop();
    this.#poller.close();
    this.#board.close();
    const { base, table, writer, operationTimeoutMs } = this.#parts;
    const patience = new AbortController();
    setMaxListeners(0, patience.signal);
    const timer = base.clock.after(operationTimeoutMs, () => patience.abort(new Error('closing took too long')));
    try {
      await this.#serial.run(() => writer.withdraw([...this.#owned.values()], patience.signal));
    } catch (error) {
      base.report(table.explain(error));
    } finally {
      timer.cancel();
      table.close();
    }
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const { table, writer } = this.#parts;
    const operation = this.#operation(signal);
    try {
      if (await writer.heartbeat(this.#loads.packed, operation)) return await this.#refreshNamespaces(operation);
      await this.#serial.run(() => writer.registerAgain([...this.#owned.values()], operation), operation);
      this.#keeper.hasten(); // the lease is new and says no load yet
    } catch (error) {
      throw table.explain(error);
    }
  }

  async #refreshNamespaces(signal: AbortSignal): Promise<void> {
    const namespaces = new Set([...this.#owned.values()].map(({ address }) => address.namespace));
    for (const namespace of namespaces) await this.#parts.writer.ensureNamespace(namespace, signal);
  }

  /** One change of the table at a time, repeated while the table is away. */
  #change(signal: AbortSignal | undefined, work: (operation: AbortSignal) => Promise<void>): Promise<void> {
    const operation = this.#operation(signal);
    const { table, operationTimeoutMs } = this.#parts;
    return this.#serial.run(() => table.attempt(operationTimeoutMs, operation, work), operation);
  }

  #read(scope: Parameters<TableReader['read']>[0][number], signal: AbortSignal | undefined): Promise<TableReading> {
    const { table, reader, operationTimeoutMs } = this.#parts;
    return table.attempt(operationTimeoutMs, this.#operation(signal), (operation) => reader.read([scope], operation));
  }

  /** Aborts with `signal` and when the handle closes; widened for the parallel calls of an operation. */
  #operation(signal: AbortSignal | undefined): AbortSignal {
    const closing = this.#closing.signal;
    const operation = AbortSignal.any(signal === undefined ? [closing] : [signal, closing]);
    setMaxListeners(0, operation);
    return operation;
  }
}

function nameOf({ address }: Pick<OwnedRecord, 'address'>): string {
  return `${address.bucket}/${address.key}`;
}
