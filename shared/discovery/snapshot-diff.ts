import type { DiscoveryRecord } from './records.ts';
import type { DiscoveryEvent } from './types.ts';

/** A record as last delivered, with the text it was read from, so that an unchanged one is not parsed again. */
export interface KnownRecord {
  readonly text: string;
  readonly record: DiscoveryRecord;
}

export interface SnapshotDiff {
  /** Removals, then additions and changes, each in key order. */
  readonly events: readonly DiscoveryEvent[];
  /** What is known after the events. */
  readonly known: Map<string, KnownRecord>;
  /** Keys whose text is no record; they keep their previous value if they had one. */
  readonly unreadableKeys: readonly string[];
}

/**
 * What changed between `known` and a full reading of the store (`texts` by key). A key
 * that cannot be parsed keeps its previous value, and is left out when it had none.
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
