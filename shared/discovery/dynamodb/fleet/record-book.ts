import { addressOf, BUCKETS, type Bucket, encodePrefix, isUnder } from '../../keys.ts';
import type { DiscoveryRecord } from '../../records.ts';
import { type DiscoveryQuery, type ReportProblem, type WatchListener, WatchTeller } from '../../types.ts';
import type { CardShelf } from './cards.ts';
import type { Fleet } from './members.ts';
import { type StoredRecord, unpackBlock, unpackRecord } from './record-bytes.ts';

/** A change of one key; without a record, the key is gone. */
interface RecordChange {
  readonly bucket: Bucket;
  readonly key: string;
  readonly record: DiscoveryRecord | undefined;
}

interface Entry {
  readonly bytes: Uint8Array;
  readonly bucket: Bucket;
  readonly key: string;
  readonly record: DiscoveryRecord;
}

interface KnownMember {
  readonly block: Uint8Array;
  readonly entries: readonly Entry[];
  /** Whether a record waits for its card. */
  readonly isPartial: boolean;
}

/**
 * Records of the fleet as last shown, by bucket and key. A process whose records did not change costs one comparison of
 * references. If two processes have a record with the same key, because one replaces the other, the later record is
 * shown.
 */
export class RecordBook {
  readonly #shelf: CardShelf;
  readonly #members = new Map<string, KnownMember>();
  readonly #keys: ReadonlyMap<Bucket, Map<string, readonly Entry[]>> = new Map(
    BUCKETS.map((bucket) => [bucket, new Map()]),
  );
  #unreadable = 0;

  constructor(shelf: CardShelf) {
    this.#shelf = shelf;
  }

  /** Number of records of the fleet that could not be read. */
  get unreadable(): number {
    return this.#unreadable;
  }

  /** Returns the checksums of cards that `fleet` needs and that the shelf lacks. */
  missingCards(fleet: Fleet): ReadonlySet<string> {
    const sums = new Set<string>();
    for (const [leaseId, { block }] of fleet) {
      if (this.#isShown(leaseId, block)) continue;
      for (const { stored } of recordsOf(block)) {
        if (stored?.type === 'Model' && !this.#shelf.has(stored.cardSum)) sums.add(stored.cardSum);
      }
    }
    return sums;
  }

  /** Shows `fleet`. Returns the changes: removed keys in key order, then new or changed ones in key order. */
  show(fleet: Fleet): readonly RecordChange[] {
    const touched = new Map<string, Entry | undefined>(); // by bucket and key, with the record shown before
    for (const leaseId of [...this.#members.keys()])
      if (!fleet.has(leaseId)) this.#replace(leaseId, undefined, touched);
    for (const [leaseId, { block }] of fleet) {
      if (!this.#isShown(leaseId, block)) this.#replace(leaseId, block, touched);
    }
    return changesOf(touched, (bucket, key) => this.#keys.get(bucket)?.get(key)?.at(-1));
  }

  /** Returns every record of a bucket under an encoded prefix, in key order. */
  under(bucket: Bucket, encodedPrefix: string): readonly RecordChange[] {
    const found: RecordChange[] = [];
    for (const [key, entries] of this.#keys.get(bucket) ?? []) {
      if (isUnder(key, encodedPrefix)) found.push({ bucket, key, record: entries.at(-1)?.record });
    }
    return found.sort(byKey);
  }

  /** Returns the processes that serve endpoints as that instance, by their records. */
  holdersOf(instanceId: string): readonly string[] {
    const leases = this.leasesWith((record) => record.type === 'Endpoint' && record.instance_id === instanceId);
    return [...leases.keys()];
  }

  /** Returns the leases that hold a chosen record, with the instance ids of these records. */
  leasesWith(isChosen: (record: DiscoveryRecord) => boolean): ReadonlyMap<string, readonly string[]> {
    const leases = new Map<string, readonly string[]>();
    for (const [leaseId, { entries }] of this.#members) {
      const ids = entries.filter(({ record }) => isChosen(record)).map(({ record }) => record.instance_id);
      if (ids.length > 0) leases.set(leaseId, [...new Set(ids)]);
    }
    return leases;
  }

  #isShown(leaseId: string, block: Uint8Array): boolean {
    const known = this.#members.get(leaseId);
    if (known === undefined || known.isPartial) return false;
    return known.block === block || Buffer.compare(known.block, block) === 0;
  }

  #replace(leaseId: string, block: Uint8Array | undefined, touched: Map<string, Entry | undefined>): void {
    const before = this.#members.get(leaseId);
    const now = block === undefined ? undefined : this.#read(block, before);
    for (const entry of before?.entries ?? []) if (now?.entries.includes(entry) !== true) this.#take(entry, touched);
    for (const entry of now?.entries ?? []) if (before?.entries.includes(entry) !== true) this.#add(entry, touched);
    if (now === undefined) this.#members.delete(leaseId);
    else this.#members.set(leaseId, now);
  }

  /** Returns the member's records; equal bytes give the same entries as before. */
  #read(block: Uint8Array, before: KnownMember | undefined): KnownMember {
    const known = new Map(before?.entries.map((entry) => [`${entry.bucket}/${entry.key}`, entry]));
    const entries = new Map<string, Entry>();
    let isPartial = false;
    for (const { bytes, stored } of recordsOf(block)) {
      const record = stored === undefined ? undefined : this.#withCard(stored);
      if (record === undefined) {
        if (stored === undefined) this.#unreadable++;
        else isPartial = true;
        continue;
      }
      const { bucket, key } = addressOf(record);
      const name = `${bucket}/${key}`;
      const same = known.get(name);
      const isSame = same !== undefined && Buffer.compare(same.bytes, bytes) === 0;
      entries.set(name, isSame ? same : { bytes, bucket, key, record });
    }
    return { block, entries: [...entries.values()], isPartial };
  }

  #withCard(stored: StoredRecord): DiscoveryRecord | undefined {
    if (stored.type !== 'Model') return stored;
    const { cardSum, ownCard, ...record } = stored;
    const card = this.#shelf.card(cardSum, ownCard);
    return card === undefined ? undefined : { ...record, card };
  }

  #take(entry: Entry, touched: Map<string, Entry | undefined>): void {
    const keys = this.#keys.get(entry.bucket);
    const entries = keys?.get(entry.key) ?? [];
    touch(touched, entry, entries.at(-1));
    const left = entries.filter((other) => other !== entry);
    if (left.length === 0) keys?.delete(entry.key);
    else keys?.set(entry.key, left);
  }

  #add(entry: Entry, touched: Map<string, Entry | undefined>): void {
    const keys = this.#keys.get(entry.bucket);
    const entries = keys?.get(entry.key) ?? [];
    touch(touched, entry, entries.at(-1));
    keys?.set(entry.key, [...entries, entry]);
  }
}

interface UnpackedRecord {
  readonly bytes: Uint8Array;
  readonly stored: StoredRecord | undefined;
}

// a block is read twice: first for its cards, then for its records
const UNPACKED = new WeakMap<Uint8Array, readonly UnpackedRecord[]>();

function recordsOf(block: Uint8Array): readonly UnpackedRecord[] {
  const known = UNPACKED.get(block);
  if (known !== undefined) return known;
  const records = unpackBlock(block).map((bytes) => ({ bytes, stored: unpackRecord(bytes) }));
  UNPACKED.set(block, records);
  return records;
}

function touch(touched: Map<string, Entry | undefined>, entry: Entry, shown: Entry | undefined): void {
  const name = `${entry.bucket} ${entry.key}`;
  if (!touched.has(name)) touched.set(name, shown);
}

function changesOf(
  touched: ReadonlyMap<string, Entry | undefined>,
  shownNow: (bucket: Bucket, key: string) => Entry | undefined,
): readonly RecordChange[] {
  const [gone, added]: [RecordChange[], RecordChange[]] = [[], []];
  for (const [name, before] of touched) {
    const space = name.indexOf(' ');
    const [bucket, key] = [name.slice(0, space) as Bucket, name.slice(space + 1)];
    const now = shownNow(bucket, key);
    if (now === undefined && before !== undefined) gone.push({ bucket, key, record: undefined });
    else if (now !== undefined && !isSame(now, before)) added.push({ bucket, key, record: now.record });
  }
  return [...gone.sort(byKey), ...added.sort(byKey)];
}

function isSame(now: Entry, before: Entry | undefined): boolean {
  return now === before || (before !== undefined && Buffer.compare(now.bytes, before.bytes) === 0);
}

function byKey(one: { readonly key: string }, other: { readonly key: string }): number {
  return one.key < other.key ? -1 : one.key > other.key ? 1 : 0;
}

/** One watch of the fleet's records. */
export class RecordWatcher extends WatchTeller {
  readonly #query: DiscoveryQuery;
  readonly #encodedPrefix: string;

  constructor(query: DiscoveryQuery, listener: WatchListener, report: ReportProblem) {
    super(listener, report);
    this.#query = query;
    this.#encodedPrefix = encodePrefix(query.prefix);
  }

  /** Delivers all current records. */
  begin(book: RecordBook): void {
    this.#tellAll(book.under(this.#query.bucket, this.#encodedPrefix));
  }

  /** Delivers the changes of a reading that was shown. */
  change(changes: readonly RecordChange[]): void {
    const { bucket } = this.#query;
    this.#tellAll(changes.filter((change) => change.bucket === bucket && isUnder(change.key, this.#encodedPrefix)));
    this.succeed();
  }

  #tellAll(changes: readonly RecordChange[]): void {
    for (const { key, record } of changes) {
      this.event(record === undefined ? { kind: 'removed', key } : { kind: 'added', key, record });
    }
  }
}
