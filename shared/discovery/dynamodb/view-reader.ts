import type { Item, ItemKey, Table } from '../table/table.ts';
import { cellOf, type MemberRecords, unpackLoadCell, unpackRecordCell } from './fleet/cells.ts';
import type { HeadBody } from './fleet/head-body.ts';
import type { Fleet, Member } from './fleet/member.ts';
import { CATALOGUE_CELL_KEY, type CellKind, cellItemKey, HEAD_KEY } from './schema.ts';
import { toViewHead, type ViewHead } from './view-head.ts';

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
export interface ViewReading {
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
  async readHead(signal: AbortSignal, isConsistent = false): Promise<ViewHead | undefined> {
    const item = await this.#table.get(HEAD_KEY, signal, isConsistent);
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
