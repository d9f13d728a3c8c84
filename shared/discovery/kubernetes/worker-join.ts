import type { UnknownRecord } from '../../records/index.ts';
import { BUCKETS, type Bucket } from '../keys.ts';
import { dynamoRecords } from './dynamo-data.ts';
import { dataOf, metadataOf, nameOf, ownDataOf, podUidOf, type ReadyNames } from './objects.ts';
import { ReadyIndex } from './ready-index.ts';

/** Place of a record: its bucket, and whether a process of Dynamo's wrote it. */
export interface RecordPlace {
  readonly bucket: Bucket;
  readonly isDynamo: boolean;
}

/** A process of Stator's: the name of its object, and its id. */
export interface OwnProcess {
  readonly name: string;
  readonly process: string;
}

/** Called with each visible record that came or changed, and with `undefined` for one that is gone. */
export type JoinListener = (place: RecordPlace, key: string, text: string | undefined) => void;

/** The object of a process, as it was last readable. */
interface Worker {
  readonly uid: unknown;
  readonly podUid: string | undefined;
  readonly process: string | undefined;
  /** Texts by place and key, joined by a blank. */
  readonly texts: ReadonlyMap<string, string>;
}

const NO_TEXTS: ReadonlyMap<string, string> = new Map();
const OWN_BUCKETS: ReadonlySet<string> = new Set(BUCKETS);

/**
 * Joins the objects of processes with the readiness of their pods: the records of an object are visible while a pod
 * with its name *and* with the uid of its owner is ready.
 *
 * Two objects may have a record of the same key, when a standby takes over the id of a process. The one that came last
 * is visible, and when it goes, the other one again.
 */
export class WorkerJoin {
  readonly #listener: JoinListener;
  readonly #ready = new ReadyIndex();
  readonly #workers = new Map<string, Worker>();
  /** Texts of each name as they are visible now. */
  readonly #visible = new Map<string, ReadonlyMap<string, string>>();
  /** Texts of each place and key, by name; the last one counts. */
  readonly #holders = new Map<string, Map<string, string>>();

  constructor(listener: JoinListener) {
    this.#listener = listener;
  }

  /** Names of the visible objects. */
  get names(): ReadonlySet<string> {
    return new Set(this.#visible.keys());
  }

  /** Returns the visible texts of a bucket by key; those of Dynamo's processes only if asked for. */
  textsOf(bucket: Bucket, includesDynamo: boolean): Map<string, string> {
    const texts = new Map<string, string>();
    for (const [placed, holders] of this.#holders) {
      const { place, key } = placeOf(placed);
      const text = lastOf(holders);
      if (place.bucket === bucket && (includesDynamo || !place.isDynamo) && text !== undefined) texts.set(key, text);
    }
    return texts;
  }

  /** Returns the visible records of Stator's processes in a bucket. */
  *ownersIn(bucket: Bucket): Generator<OwnProcess & { readonly key: string; readonly text: string }> {
    for (const [name, texts] of this.#visible) {
      const process = this.#workers.get(name)?.process;
      if (process === undefined) continue;
      for (const [placed, text] of texts) {
        const { place, key } = placeOf(placed);
        if (place.bucket === bucket && !place.isDynamo) yield { name, process, key, text };
      }
    }
  }

  /** Takes all slices or pods, by their names. */
  showReady(sources: ReadonlyMap<string, ReadyNames>): void {
    for (const name of this.#ready.replace(sources)) this.#join(name);
  }

  /** Takes one slice or pod; nothing = it is gone. */
  changeReady(source: string, ready: ReadyNames): void {
    for (const name of this.#ready.set(source, ready)) this.#join(name);
  }

  /** Takes the objects of all processes. */
  showWorkers(objects: readonly UnknownRecord[]): void {
    const gone = new Set(this.#workers.keys());
    for (const object of objects) {
      gone.delete(nameOf(object));
      this.changeWorker(object, false);
    }
    for (const name of gone) this.#dropWorker(name);
  }

  /** Takes the object of one process. */
  changeWorker(object: UnknownRecord, isGone: boolean): void {
    const name = nameOf(object);
    if (isGone) {
      this.#dropWorker(name);
      return;
    }
    const { uid } = metadataOf(object);
    const podUid = podUidOf(object);
    const before = this.#workers.get(name);
    const texts = textsIn(object);
    // An object without data was written by halves: what the same object had before stays.
    const isSame = before !== undefined && before.uid === uid && before.podUid === podUid;
    const kept = isSame ? before.texts : NO_TEXTS;
    this.#workers.set(name, { uid, podUid, process: ownDataOf(object)?.process, texts: texts ?? kept });
    this.#join(name);
  }

  #dropWorker(name: string): void {
    this.#workers.delete(name);
    this.#join(name);
  }

  #join(name: string): void {
    const worker = this.#workers.get(name);
    const isVisible = worker?.podUid !== undefined && worker.podUid === this.#ready.uidOf(name);
    const before = this.#visible.get(name) ?? NO_TEXTS;
    const texts = isVisible ? worker.texts : NO_TEXTS;
    if (isVisible) this.#visible.set(name, texts);
    else this.#visible.delete(name);
    if (before === texts) return;
    for (const placed of before.keys()) if (!texts.has(placed)) this.#hold(name, placed, undefined);
    for (const [placed, text] of texts) if (before.get(placed) !== text) this.#hold(name, placed, text);
  }

  #hold(name: string, placed: string, text: string | undefined): void {
    const holders = this.#holders.get(placed) ?? new Map<string, string>();
    const before = lastOf(holders);
    holders.delete(name);
    if (text !== undefined) holders.set(name, text); // at the end: it came last
    if (holders.size > 0) this.#holders.set(placed, holders);
    else this.#holders.delete(placed);
    const now = lastOf(holders);
    if (now === before) return;
    const { place, key } = placeOf(placed);
    this.#listener(place, key, now);
  }
}

/** Returns the texts of an object by place and key; undefined if it has no data. */
function textsIn(object: UnknownRecord): ReadonlyMap<string, string> | undefined {
  const data = dataOf(object);
  if (data === undefined) return undefined;
  const texts = new Map<string, string>();
  for (const { bucket, key, text } of dynamoRecords(data)) texts.set(`d ${bucket} ${key}`, text);
  for (const [address, text] of Object.entries(ownDataOf(object)?.records ?? {})) {
    const [bucket = '', key = ''] = address.split(' ', 2);
    if (OWN_BUCKETS.has(bucket) && typeof text === 'string') texts.set(`s ${bucket} ${key}`, text);
  }
  return texts;
}

function placeOf(placed: string): { readonly place: RecordPlace; readonly key: string } {
  const [product, bucket, key = ''] = placed.split(' ', 3);
  return { place: { bucket: bucket as Bucket, isDynamo: product === 'd' }, key }; // as `textsIn` made it
}

function lastOf(holders: ReadonlyMap<string, string>): string | undefined {
  let last: string | undefined;
  for (const text of holders.values()) last = text;
  return last;
}
