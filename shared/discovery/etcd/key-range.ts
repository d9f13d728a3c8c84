import { type EtcdEvent, EtcdEventType, type EtcdKeyValue, type RangeResponse } from '../../grpc/index.ts';
import { ASK, type EtcdClient } from './etcd-client.ts';
import { EtcdFailure } from './etcd-errors.ts';

/** Keys of one page; a page of cards has about two megabytes. */
const PAGE_KEYS = 500n;
/** Attempts to read a range whose revision is compacted away meanwhile. */
const READINGS_MAX = 3;

/** Value of a key, as its reader made it. */
interface Entry<Value> {
  readonly value: Value;
  readonly revision: bigint;
}

/** Changes of a range, in the order of the store; undefined = the key is gone. */
export type RangeChanges<Value> = readonly (readonly [key: string, value: Value | undefined])[];

/** Keys below a root, as far as they are known, and the revision up to which they are. */
export class KeyRange<Value> {
  /** First key, and the first one after the range. */
  readonly start: Buffer;
  readonly end: Buffer;
  readonly #root: string;
  readonly #read: (bytes: Uint8Array, key: string, lease: bigint) => Value;
  readonly #entries = new Map<string, Entry<Value>>();
  /** Keys that a lost history had: they stay until their owners had time to write them again. */
  readonly #held = new Set<string>();
  #revision = 0n;

  /**
   * @param root text before the keys
   * @param prefix whole segments of the keys, without a slash at the end; empty = all keys below the root
   * @param read makes a value out of what is stored
   */
  constructor(root: string, prefix: string, read: (bytes: Uint8Array, key: string, lease: bigint) => Value) {
    this.#root = root;
    this.#read = read;
    const first = `${root}${prefix}`;
    this.start = Buffer.from(first);
    // The last character moves to the one after it. From `a/b` on, the range then has `a/b` and all of `a/b/`; the few
    // other keys that begin with `a/b` are left out by the watcher.
    const last = prefix === '' ? first.slice(0, -1) : first;
    this.end = Buffer.from(`${last}${AFTER_SLASH}`);
  }

  /** First revision that is not known. */
  get nextRevision(): bigint {
    return this.#revision + 1n;
  }

  /** Known values by key. */
  values(): Map<string, Value> {
    return new Map([...this.#entries].map(([key, { value }]) => [key, value]));
  }

  /**
   * Takes a whole reading.
   * @param isLost whether the history before it was lost: keys that it lacks then stay for now
   */
  replace({ kvs, revision }: Reading, isLost: boolean): void {
    const [before, held] = [new Map(this.#entries), new Set(this.#held)];
    this.#entries.clear();
    this.#held.clear();
    this.#revision = revision;
    for (const each of kvs) this.#take(each, before);
    for (const [key, { value }] of before) {
      if (this.#entries.has(key) || !(isLost || held.has(key))) continue;
      this.#entries.set(key, { value, revision: 0n });
      this.#held.add(key);
    }
  }

  /**
   * Takes the keys that changed after the known revision, as of `revision`, and the number of all keys.
   * @returns the changes; undefined if keys are gone, and a whole reading must tell which
   */
  amend({ kvs, count }: RangeResponse, revision: bigint): RangeChanges<Value> | undefined {
    if (revision <= this.#revision) return []; // events came first
    const changes = kvs.map((each) => this.#take(each));
    if (BigInt(this.#entries.size - this.#held.size) !== count) return undefined;
    this.#revision = revision;
    return changes;
  }

  /** Takes events of a watch. Those that are known already change nothing. */
  apply(events: readonly EtcdEvent[]): RangeChanges<Value> {
    const changes: (readonly [string, Value | undefined])[] = [];
    const after = this.#revision;
    for (const { type, kv } of events) {
      if (kv === undefined || kv.modRevision < after) continue; // the events of one revision may come in parts
      const key = this.#keyOf(kv);
      if ((this.#entries.get(key)?.revision ?? 0n) >= kv.modRevision) continue;
      if (type === EtcdEventType.DELETE) {
        this.#held.delete(key);
        if (this.#entries.delete(key)) changes.push([key, undefined]);
      } else {
        changes.push(this.#take(kv));
      }
      if (kv.modRevision > this.#revision) this.#revision = kv.modRevision;
    }
    return changes;
  }

  /** Removes the keys of a lost history that no process wrote again. */
  dropHeld(): RangeChanges<Value> {
    const keys = [...this.#held].sort();
    this.#held.clear();
    for (const key of keys) this.#entries.delete(key);
    return keys.map((key) => [key, undefined]);
  }

  #take(kv: EtcdKeyValue, before: ReadonlyMap<string, Entry<Value>> = this.#entries): readonly [string, Value] {
    const key = this.#keyOf(kv);
    const known = before.get(key);
    const isSame = known !== undefined && known.revision === kv.modRevision;
    const value = isSame ? known.value : this.#read(kv.value, key, kv.lease);
    this.#entries.set(key, { value, revision: kv.modRevision });
    this.#held.delete(key);
    return [key, value];
  }

  #keyOf({ key }: EtcdKeyValue): string {
    return toUtf8(key).slice(this.#root.length);
  }
}

/** Returns the text of a key or a value. */
export function toUtf8({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}

const AFTER_SLASH = String.fromCharCode('/'.charCodeAt(0) + 1);

/** Content of a range at one revision. */
export interface Reading {
  readonly kvs: readonly EtcdKeyValue[];
  readonly revision: bigint;
}

type Bounds = Pick<KeyRange<unknown>, 'start' | 'end'>;

/** Reads ranges as they are at one revision, in pages. */
export async function readRanges(
  client: EtcdClient,
  ranges: readonly Bounds[],
  signal: AbortSignal,
): Promise<readonly Reading[]> {
  for (let readings = 1; ; readings++) {
    try {
      const found: Reading[] = [];
      let revision = 0n;
      for (const range of ranges) {
        const reading = await readPages(client, range, revision, signal);
        revision = reading.revision;
        found.push(reading);
      }
      return found;
    } catch (thrown) {
      if (!(thrown instanceof EtcdFailure && thrown.isCompacted) || readings === READINGS_MAX) throw thrown;
    }
  }
}

/** @param atRevision revision to read; 0 = the newest */
async function readPages(
  client: EtcdClient,
  { start, end }: Bounds,
  atRevision: bigint,
  signal: AbortSignal,
): Promise<Reading> {
  const kvs: EtcdKeyValue[] = [];
  let [revision, limit, key] = [atRevision, PAGE_KEYS, start];
  for (;;) {
    let page: RangeResponse;
    try {
      page = await client.ask(ASK.range, { key, rangeEnd: end, limit, revision }, signal);
    } catch (thrown) {
      if (!(thrown instanceof EtcdFailure && thrown.isTooLarge) || limit === 1n) throw thrown;
      limit /= 2n;
      continue;
    }
    kvs.push(...page.kvs);
    if (revision === 0n) revision = page.header?.revision ?? 0n;
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return { kvs, revision };
    key = Buffer.concat([last.key, Buffer.of(0)]); // the first key after it
  }
}
