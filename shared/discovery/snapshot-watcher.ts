import { type Bucket, encodePrefix, isUnder } from './keys.ts';
import { fromText, refusalOf } from './record-text.ts';
import type { DiscoveryRecord } from './records.ts';
import {
  type DiscoveryEvent,
  type DiscoveryQuery,
  type ReportProblem,
  type WatchListener,
  WatchTeller,
} from './types.ts';

/** A record as last delivered, with its text, so that an unchanged record is not parsed again. */
export interface KnownRecord {
  readonly text: string;
  readonly record: DiscoveryRecord;
}

interface SnapshotDiff {
  /** Removals, then additions and changes, each in key order. */
  readonly events: readonly DiscoveryEvent[];
  /** Records that are known after the events. */
  readonly known: Map<string, KnownRecord>;
  /** Keys whose text is not a record; they keep their previous value if they had one. */
  readonly unreadableKeys: readonly string[];
}

/**
 * Turns successive full readings of a bucket into the events of one watch, and outages into `failing` and `recovered`.
 */
export class SnapshotWatcher extends WatchTeller {
  readonly bucket: Bucket;
  readonly encodedPrefix: string;
  readonly #report: ReportProblem;
  #known = new Map<string, KnownRecord>();
  #unreadableKeys: readonly string[] = [];

  constructor(query: DiscoveryQuery, listener: WatchListener, report: ReportProblem) {
    super(listener, report);
    this.bucket = query.bucket;
    this.encodedPrefix = encodePrefix(query.prefix);
    this.#report = report;
  }

  /**
   * Delivers the changes of `texts`, a reading of the whole bucket or of everything under the prefix.
   * @param isRecent whether all of it was read now; otherwise an outage goes on
   */
  apply(texts: ReadonlyMap<string, string>, isRecent = true): void {
    if (this.isClosed) return;
    const diff = diffSnapshot(this.#known, textsUnder(texts, this.encodedPrefix), (key, text) =>
      fromText(text, this.bucket, key),
    );
    this.#known = diff.known;
    this.#reportUnreadable(diff.unreadableKeys, texts);
    for (const event of diff.events) this.event(event);
    if (isRecent) this.succeed();
  }

  /**
   * Delivers the change of one entry (`text` undefined: it is gone), for a store that reports its changes one by one.
   */
  applyOne(key: string, text: string | undefined): void {
    if (!isUnder(key, this.encodedPrefix) || this.#known.get(key)?.text === text) return;
    if (text === undefined) {
      this.#known.delete(key);
      this.event({ kind: 'removed', key });
      return;
    }
    const record = fromText(text, this.bucket, key);
    if (record === undefined) {
      this.#reportUnreadable([key], new Map([[key, text]]));
      return;
    }
    this.#known.set(key, { text, record });
    this.event({ kind: 'added', key, record });
  }

  #reportUnreadable(keys: readonly string[], texts: ReadonlyMap<string, string>): void {
    const isNew = keys.some((key) => !this.#unreadableKeys.includes(key));
    this.#unreadableKeys = keys;
    if (!isNew) return;
    const byReason = new Map<string, string[]>();
    for (const key of keys) {
      const reason = refusalOf(texts.get(key) ?? '') ?? `unreadable discovery entries in ${this.bucket}`;
      const alike = byReason.get(reason);
      if (alike === undefined) byReason.set(reason, [key]);
      else alike.push(key);
    }
    for (const [reason, alike] of byReason) this.#report(new Error(`${reason}: ${listed(alike)}`));
  }
}

/** Largest number of keys that a report names. */
const NAMED_MAX = 20;

function listed(keys: readonly string[]): string {
  const named = keys.slice(0, NAMED_MAX).join(', ');
  return keys.length > NAMED_MAX ? `${named} and ${keys.length - NAMED_MAX} more` : named;
}

/** Returns the readable records of `texts` under the prefix, in key order. */
export function recordsUnder(
  texts: ReadonlyMap<string, string>,
  bucket: Bucket,
  encodedPrefix: string,
): DiscoveryRecord[] {
  const { known } = diffSnapshot(new Map(), textsUnder(texts, encodedPrefix), (key, text) =>
    fromText(text, bucket, key),
  );
  return [...known.values()].map(({ record }) => record);
}

function textsUnder(texts: ReadonlyMap<string, string>, encodedPrefix: string): ReadonlyMap<string, string> {
  if (encodedPrefix === '') return texts;
  return new Map([...texts].filter(([key]) => isUnder(key, encodedPrefix)));
}

/**
 * Compares `known` with a full reading of the store (`texts` by key). A key whose text cannot be parsed keeps its
 * previous value, and is left out if it had none.
 */
export function diffSnapshot(
  known: ReadonlyMap<string, KnownRecord>,
  texts: ReadonlyMap<string, string>,
  parse: (key: string, text: string) => DiscoveryRecord | undefined,
): SnapshotDiff {
  const removed = sorted(known.keys()).filter((key) => !texts.has(key));
  const events: DiscoveryEvent[] = removed.map((key) => ({ kind: 'removed', key }));
  const next = new Map<string, KnownRecord>();
  const unreadableKeys: string[] = [];
  for (const key of sorted(texts.keys())) {
    const text = texts.get(key) ?? '';
    const before = known.get(key);
    if (before?.text === text) {
      next.set(key, before);
      continue;
    }
    const record = parse(key, text);
    if (record !== undefined) {
      next.set(key, { text, record });
      events.push({ kind: 'added', key, record });
      continue;
    }
    unreadableKeys.push(key);
    if (before !== undefined) next.set(key, before);
  }
  return { events, known: next, unreadableKeys };
}

// By code unit: the order of sort keys in every back end, independent of locale.
function sorted(keys: Iterable<string>): string[] {
  return [...keys].sort();
}
