import type { Clock } from '../../clock/index.ts';
import type { Item, ItemKey, Table } from '../table/table.ts';
import { ageMs, type Moment, momentOf, type TableTime } from '../table/table-time.ts';
import type { Fleet, Member } from './fleet/members.ts';
import {
  cellOf,
  type HeadBody,
  type MemberRecords,
  unpackHead,
  unpackLoadCell,
  unpackRecordCell,
} from './fleet/view-bytes.ts';
import { CATALOGUE_CELL_KEY, type CellKind, cellItemKey, HEAD_KEY } from './schema.ts';

/** Up to here a reader that names a shard reads every cell of loads all the same. */
const LOAD_CELLS_ALL = 8;

interface HeldCell<T> {
  /** Round in which it was written. */
  readonly version: number;
  readonly content: T;
}

/** The cells of one kind as last read. All are of the same fence and number of cells. */
interface HeldCells<T> {
  fence: number;
  count: number;
  readonly cells: Map<number, HeldCell<T>>;
}

/** What a reading of the view gave. */
interface ViewReading {
  /** Undefined while some cell has not been read yet: then the view says nothing. */
  readonly fleet: Fleet | undefined;
  /** Packed, where it is new; undefined otherwise. */
  readonly catalogue: Uint8Array | undefined;
  /** The loads of one shard alone are known. */
  readonly isSharded: boolean;
}

const NOTHING: Uint8Array = new Uint8Array();

/** Reads the materialised view: the head, then in one request the cells that changed. All of it eventually consistent. */
export class ViewReader {
  readonly #table: Table;
  readonly #records: HeldCells<readonly MemberRecords[]> = { fence: 0, count: 0, cells: new Map() };
  readonly #loads: HeldCells<ReadonlyMap<string, Uint8Array>> = { fence: 0, count: 0, cells: new Map() };
  #fleet: Fleet | undefined;
  #catalogue = '';

  constructor(table: Table) {
    this.#table = table;
  }

  /** Undefined while there is none. */
  async readHead(signal: AbortSignal): Promise<ViewHead | undefined> {
    const item = await this.#table.get(HEAD_KEY, signal, false);
    return item === undefined ? undefined : toViewHead(item);
  }

  /**
   * Brings the cells up to what `head` says. A cell that a replica does not have in that version yet stays as it was, until
   * the next time. With many cells of loads, `shardKey` names the one that is read; the others are then not known.
   */
  async readCells(head: ViewHead, shardKey: string | undefined, signal: AbortSignal): Promise<ViewReading> {
    const { body, bodyFence: fence } = head;
    if (body === undefined) return { fleet: undefined, catalogue: undefined, isSharded: false };
    const loads = loadCellsToRead(body.loads.length, shardKey);
    const wanted = new Map<string, ItemKey>();
    for (const cell of body.records.keys()) this.#want('records', this.#records, cell, fence, body, wanted);
    for (const cell of loads) this.#want('loads', this.#loads, cell, fence, body, wanted);
    const catalogue = `${fence}/${body.catalogue}`;
    if (catalogue !== this.#catalogue && body.catalogue > 0) wanted.set('catalogue', CATALOGUE_CELL_KEY);
    const items = wanted.size === 0 ? [] : await this.#table.batchGet([...wanted.values()], signal);
    const byKey = new Map(items.map((item) => [item.pk?.S, item]));
    const read = (kind: CellKind, cell: number): Item | undefined => byKey.get(cellItemKey(kind, cell).pk);
    let isChanged = take(this.#records, fence, body.records, (cell) => read('records', cell), unpackRecordCell);
    isChanged = take(this.#loads, fence, body.loads, (cell) => read('loads', cell), unpackLoadCell) || isChanged;
    const isSharded = loads.length < body.loads.length;
    if (isSharded) isChanged = keepOnly(this.#loads, loads) || isChanged;
    if (isChanged || this.#fleet === undefined) this.#fleet = this.#compose(fence, body);
    const newCatalogue = this.#takeCatalogue(catalogue, byKey.get(CATALOGUE_CELL_KEY.pk), fence);
    return { fleet: this.#fleet, catalogue: newCatalogue, isSharded };
  }

  #want<T>(
    kind: CellKind,
    held: HeldCells<T>,
    cell: number,
    fence: number,
    body: HeadBody,
    wanted: Map<string, ItemKey>,
  ): void {
    const isOfHead = held.fence === fence && held.count === body[kind].length;
    const version = isOfHead ? held.cells.get(cell)?.version : undefined;
    if (version === undefined || version < (body[kind][cell] ?? 0))
      wanted.set(`${kind}${cell}`, cellItemKey(kind, cell));
  }

  #compose(fence: number, body: HeadBody): Fleet | undefined {
    if (this.#records.fence !== fence || this.#records.count !== body.records.length) return this.#fleet;
    if (this.#records.cells.size < body.records.length) return this.#fleet; // the new cells are not all there yet
    const fleet = new Map<string, Member>();
    const { cells, count } = this.#loads;
    for (const { content } of this.#records.cells.values()) {
      for (const member of content) {
        const load = cells.get(cellOf(member.leaseId, count))?.content.get(member.leaseId) ?? NOTHING;
        fleet.set(member.leaseId, { ...member, load });
      }
    }
    return fleet;
  }

  #takeCatalogue(version: string, item: Item | undefined, fence: number): Uint8Array | undefined {
    if (item?.body?.B === undefined || Number(item.fence?.N) !== fence) return undefined;
    this.#catalogue = version;
    return item.body.B;
  }
}

/** All of them, or the one that the key hashes to where they are many. */
function loadCellsToRead(count: number, shardKey: string | undefined): readonly number[] {
  if (shardKey !== undefined && count > LOAD_CELLS_ALL) return [cellOf(shardKey, count)];
  return Array.from({ length: count }, (_, cell) => cell);
}

/** Takes what was read over into `held`. True when that changed it. */
function take<T>(
  held: HeldCells<T>,
  fence: number,
  versions: readonly number[],
  read: (cell: number) => Item | undefined,
  unpack: (bytes: Uint8Array) => T | undefined,
): boolean {
  const fresh = new Map<number, HeldCell<T>>();
  for (const [cell, wanted] of versions.entries()) {
    const item = read(cell);
    const [version, bytes] = [Number(item?.version?.N), item?.body?.B];
    // Of the same gatherer, as many cells as the head says, and not older: else a replica lags, or the head is about to change.
    const isMeant = Number(item?.fence?.N) === fence && Number(item?.cells?.N) === versions.length && version >= wanted;
    const content = isMeant && bytes !== undefined ? unpack(bytes) : undefined;
    if (content !== undefined) fresh.set(cell, { version, content });
  }
  if (fresh.size === 0) return false;
  if (held.fence !== fence || held.count !== versions.length) held.cells.clear();
  held.fence = fence;
  held.count = versions.length;
  for (const [cell, content] of fresh) held.cells.set(cell, content);
  return true;
}

/** Drops the cells that were not read now: what they say grows old unseen. True when there were any. */
function keepOnly<T>(held: HeldCells<T>, cells: readonly number[]): boolean {
  const others = [...held.cells.keys()].filter((cell) => !cells.includes(cell));
  for (const cell of others) held.cells.delete(cell);
  return others.length > 0;
}

/** The head of the view as it is in the table. It is also the lease of the process that writes the view. */
export interface ViewHead {
  /** Of the process that holds it; cells and head are written under it. */
  readonly fence: number;
  /** Empty: given up, anybody may take it. */
  readonly holder: string;
  /** Table time when the body was written. */
  readonly writtenAtMs: number;
  /** Table time when the holder took it. */
  readonly takenAtMs: number;
  /** Fence under which the body and its cells were written; below `fence` until the holder has written its first view. */
  readonly bodyFence: number;
  /** Undefined when there is none yet, or of a later version. */
  readonly body: HeadBody | undefined;
}

/** How a head is to be taken. */
interface HeadState {
  /** The view that it tells of may be used. */
  readonly isFresh: boolean;
  /** Its holder is gone: another process may take its place. */
  readonly isTakeable: boolean;
}

/** Times to live after which a head that was just met is taken, whatever this process's clock may be off. */
const TTLS_UNSEEN = 3;

function toViewHead(item: Item): ViewHead {
  return {
    fence: numberOf(item.fence),
    holder: item.holder?.S ?? '',
    writtenAtMs: numberOf(item.writtenAtMs),
    takenAtMs: numberOf(item.takenAtMs),
    bodyFence: numberOf(item.bodyFence),
    body: item.body?.B === undefined ? undefined : unpackHead(item.body.B),
  };
}

/**
 * Whether the head is kept up. Once this process has seen it change, its own clock decides: fresh for one time to live after
 * each change, takeable from then on. A head that it has just met is judged by table time.
 *
 *   just met --> table time: fresh for one TTL, takeable after three      seen to change --> one TTL from each change
 */
export class HeadWatch {
  readonly #time: TableTime;
  readonly #ttlMs: number;
  readonly #writing: Sightings;
  readonly #holding: Sightings;

  constructor(clock: Clock, time: TableTime, ttlMs: number) {
    this.#time = time;
    this.#ttlMs = ttlMs;
    this.#writing = new Sightings(clock, ttlMs);
    this.#holding = new Sightings(clock, ttlMs);
  }

  observe({ fence, holder, writtenAtMs, takenAtMs, body }: ViewHead): HeadState {
    this.#writing.look(`${writtenAtMs}`);
    this.#holding.look(`${fence}/${writtenAtMs}/${takenAtMs}`);
    const nowMs = this.#time.nowMs();
    const unwrittenMs = this.#writing.hasChanged ? this.#writing.unchangedMs : nowMs - writtenAtMs;
    const isIdle = this.#holding.unchangedMs > this.#ttlMs;
    const isLongGone = nowMs - Math.max(writtenAtMs, takenAtMs) > TTLS_UNSEEN * this.#ttlMs;
    return {
      isFresh: body !== undefined && unwrittenMs <= this.#ttlMs,
      isTakeable: holder === '' || isIdle || isLongGone,
    };
  }
}

/** Since when a value has been the same, as far as one can know who looks now and then. */
class Sightings {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #value: string | undefined;
  #since: Moment | undefined;
  #looked: Moment | undefined;
  /** The change to the present value was seen by two looks that are at most one TTL apart. */
  hasChanged = false;

  constructor(clock: Clock, ttlMs: number) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  get unchangedMs(): number {
    return this.#since === undefined ? 0 : ageMs(this.#since, this.#clock);
  }

  look(value: string): void {
    const now = momentOf(this.#clock);
    if (value !== this.#value) {
      this.hasChanged = this.#looked !== undefined && ageMs(this.#looked, this.#clock) <= this.#ttlMs;
      this.#value = value;
      this.#since = now;
    }
    this.#looked = now;
  }
}

function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N);
}
