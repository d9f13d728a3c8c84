import { hostname } from 'node:os';
import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { encodeSegment } from '../../planes/names/index.ts';
import type { RecordAddress } from '../keys.ts';
import { DiscoveryError } from '../options.ts';
import type { Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import { leaseItemKey, NAMESPACES_PK, recordItemKey } from './schema.ts';

/** A record that this process holds in the table. */
export interface OwnedRecord {
  readonly address: RecordAddress;
  readonly text: string;
  readonly instanceId: string;
}

export interface TableWriterOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  readonly leaseId: string;
  readonly ttlMs: number;
}

/** DynamoDB takes 400 KB an item, names included; the rest of a record's item stays below 2 KB. */
const RECORD_BYTES_MAX = 398 * 1024;
const GARBAGE_AFTER_S = 3600;
const NAMESPACE_GARBAGE_AFTER_S = 7 * 86_400;
const NAMESPACE_REFRESH_MS = 86_400_000;
const EPOCH_IS_MINE = 'attribute_exists(sk) AND epoch = :epoch';

/** Writes the items of one process: its lease, its records, and the names of its namespaces. */
export class TableWriter {
  readonly #options: TableWriterOptions;
  readonly #namespaceWrittenAtMs = new Map<string, number>(); // by encoded namespace; as many as the process serves
  /** Encoded namespace that keeps the lease: that of the first record. */
  #leaseNamespace: string | undefined;
  #epoch = 0;

  constructor(options: TableWriterOptions) {
    this.#options = options;
  }

  /** Writes the lease if there is none yet. Resolves with the monotonic time when the request left, else undefined. */
  async ensureLease(namespace: string, signal: AbortSignal): Promise<number | undefined> {
    if (this.#epoch > 0) return undefined;
    this.#leaseNamespace = encodeSegment(namespace);
    await this.ensureNamespace(namespace, signal); // first, for its answer tells the table's time
    const sentAtMs = this.#options.clock.nowMs();
    await this.#writeLease(1, signal);
    this.#epoch = 1;
    return sentAtMs;
  }

  /** Makes the namespace known to readers of all namespaces; repeated once a day. */
  async ensureNamespace(namespace: string, signal: AbortSignal): Promise<void> {
    const { table, time, clock } = this.#options;
    const sk = encodeSegment(namespace);
    const writtenAtMs = this.#namespaceWrittenAtMs.get(sk);
    if (writtenAtMs !== undefined && clock.nowMs() - writtenAtMs < NAMESPACE_REFRESH_MS) return;
    const ttl = Math.ceil(time.nowMs() / 1000) + NAMESPACE_GARBAGE_AFTER_S;
    const change = { key: { pk: NAMESPACES_PK, sk }, names: { '#ttl': 'ttl' }, values: { ':ttl': ttl } };
    await table.update('SET #ttl = :ttl', change, signal);
    this.#namespaceWrittenAtMs.set(sk, clock.nowMs());
  }

  /** Creates or replaces a record under the present epoch; `rev` counts the writes. */
  async writeRecord({ address, text }: OwnedRecord, signal: AbortSignal): Promise<void> {
    const isElsewhere = encodeSegment(address.namespace) !== this.#leaseNamespace;
    await this.#options.table.update(
      `SET #record = :record, leaseId = :lease, epoch = :epoch${isElsewhere ? ', leaseNs = :ns' : ''} ADD rev :one`,
      {
        key: recordItemKey(address),
        names: { '#record': 'record' },
        values: {
          ':record': text,
          ':lease': this.#options.leaseId,
          ':epoch': this.#epoch,
          ':one': 1,
          ...(isElsewhere ? { ':ns': this.#leaseNamespace ?? '' } : {}),
        },
      },
      signal,
    );
  }

  /** Deletes a record unless another process has taken its key. */
  async deleteRecord(address: RecordAddress, signal: AbortSignal): Promise<void> {
    await this.#options.table.delete(
      { key: recordItemKey(address), condition: 'leaseId = :lease', values: { ':lease': this.#options.leaseId } },
      signal,
    );
  }

  /** Extends the lease by one write. False when it is gone: everything must be registered again. */
  heartbeat(load: Uint8Array, signal: AbortSignal): Promise<boolean> {
    const { table, time, ttlMs } = this.#options;
    const expiresAtMs = time.nowMs() + ttlMs;
    return table.update(
      'SET expiresAtMs = :expires, #ttl = :ttl, #load = :load',
      {
        key: this.#leaseKey(),
        condition: EPOCH_IS_MINE,
        names: { '#ttl': 'ttl', '#load': 'load' },
        values: {
          ':expires': expiresAtMs,
          ':ttl': garbageAt(expiresAtMs),
          ':epoch': this.#epoch,
          ':load': load,
        },
      },
      signal,
    );
  }

  /**
   * Writes everything again under a new epoch. Records come first and the lease last, so that readers see all of it at once
   * and what an earlier epoch left behind stays dead.
   */
  async registerAgain(records: readonly OwnedRecord[], signal: AbortSignal): Promise<void> {
    this.#epoch++; // also when what follows fails: the next attempt finds no lease of this epoch and takes the next one
    this.#namespaceWrittenAtMs.clear();
    for (const namespace of new Set(records.map(({ address }) => address.namespace))) {
      await this.ensureNamespace(namespace, signal);
    }
    await inBatches(records, (record) => this.writeRecord(record, signal));
    await this.#writeLease(this.#epoch, signal);
  }

  /** Ends the lease, which withdraws everything at once, then clears the records away. */
  async withdraw(records: readonly OwnedRecord[], signal: AbortSignal): Promise<void> {
    if (this.#epoch === 0) return;
    const values = { ':epoch': this.#epoch };
    await this.#options.table.delete({ key: this.#leaseKey(), condition: EPOCH_IS_MINE, values }, signal);
    await inBatches(records, ({ address }) => this.deleteRecord(address, signal));
  }

  /** `<=` and not `<`: a write whose answer was lost is repeated under the same epoch. */
  async #writeLease(epoch: number, signal: AbortSignal): Promise<void> {
    const { table, time, ttlMs, leaseId } = this.#options;
    const expiresAtMs = time.nowMs() + ttlMs;
    const isWritten = await table.update(
      'SET expiresAtMs = :expires, ttlMs = :ttlMs, epoch = :epoch, host = :host, #ttl = :ttl',
      {
        key: this.#leaseKey(),
        condition: 'attribute_not_exists(sk) OR epoch <= :epoch',
        names: { '#ttl': 'ttl' },
        values: {
          ':expires': expiresAtMs,
          ':ttlMs': ttlMs,
          ':epoch': epoch,
          ':host': hostname(),
          ':ttl': garbageAt(expiresAtMs),
        },
      },
      signal,
    );
    if (!isWritten) throw new DiscoveryError('unavailable', `lease ${leaseId} is held under a later epoch`);
  }

  #leaseKey() {
    return leaseItemKey(this.#leaseNamespace ?? '', this.#options.leaseId);
  }
}

/** Throws when `text` does not fit into an item. */
export function assertFits({ address, text }: OwnedRecord): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= RECORD_BYTES_MAX) return;
  const size = `${Math.ceil(bytes / 1024)} KB`;
  const hint = 'Keep large parts, such as the chat template, as files by checksum';
  throw new DiscoveryError('record_too_large', `record ${address.key} has ${size}, DynamoDB takes 400 KB. ${hint}`);
}

function garbageAt(expiresAtMs: number): number {
  return Math.ceil(expiresAtMs / 1000) + GARBAGE_AFTER_S;
}
