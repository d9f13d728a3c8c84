import type { Item, ItemKey, Table } from '../table/table.ts';
import type { Fleet, Member } from './fleet/members.ts';
import { cellOf, type HeadBody, type MemberRecords, unpackLoadCell, unpackRecordCell } from './fleet/view-bytes.ts';
import { cellsOf, unpackIndex, type ViewIndex } from './fleet/view-index.ts';
import { CATALOGUE_CELL_KEY, type CellKind, cellItemKey, HEAD_KEY, INDEX_CELL_KEY } from './schema.ts';
import { toViewHead, type ViewHead } from './view-head.ts';

/** Most cells of loads for which a reader that names a shard still reads every cell. */
const LOAD_CELLS_ALL = 8;

interface HeldCell<T> {
  /** Round in which it was written. */
  readonly version: number;
  readonly content: T;
}

/** Cells of one kind as last read. All have the same fence and number of cells. */
interface HeldCells<T> {
  fence: number;
  count: number;
  readonly cells: Map<number, HeldCell<T>>;
}

/** The parts of the view to read. */
export interface ViewRequest {
  /**
   * Selects one cell of loads if there are many. The loads in the other cells are then unknown. @default all are read
   */
  readonly shardKey?: string | undefined;
  /**
   * Models whose processes are read; processes without a model are always read. @default all processes, and all loads
   * without a `shardKey`
   */
  readonly models?: ReadonlySet<string> | undefined;
  /** Whether to read all processes, whatever `models` says. `models` then only requests the index. @default false */
  readonly isWhole?: boolean;
}

/** Result of a reading of the view. */
interface ViewReading {
  /** Live processes; undefined until every cell has been read, because an incomplete view proves nothing. */
  readonly fleet: Fleet | undefined;
  /** Packed catalogue, if it is new; otherwise undefined. */
  readonly catalogue: Uint8Array | undefined;
  /** Whether only the loads of one shard, or no loads, are known. */
  readonly isSharded: boolean;
  /** Whether everything that was wanted belongs to this head. Otherwise the result is the previous one. */
  readonly isComplete: boolean;
}

interface HeldIndex {
  readonly fence: number;
  /** Whether only cells that the head names are read. */
  readonly count: number;
  readonly version: number;
  readonly content: ViewIndex;
}

const NOTHING: Uint8Array = new Uint8Array();
const NO_MODELS: ReadonlySet<string> = new Set();

/** Most cells for which all are read, whatever models are wanted: some fifty processes. */
const CELLS_WHOLE = 2;
/** Cell of processes without a model. The first reading gets it in the same request as the index. */
const FIRST_CELL = 0;

/**
 * Reads the materialised view: the head, then in one request the cells that changed. All reads are eventually
 * consistent.
 */
export class ViewReader {
  readonly #table: Table;
  readonly #records: HeldCells<readonly MemberRecords[]> = { fence: 0, count: 0, cells: new Map() };
  readonly #loads: HeldCells<ReadonlyMap<string, Uint8Array>> = { fence: 0, count: 0, cells: new Map() };
  #index: HeldIndex | undefined;
  #fleet: Fleet | undefined;
  #catalogue = '';

  constructor(table: Table) {
    this.#table = table;
  }

  /** Returns the head; undefined while there is none. */
  async readHead(signal: AbortSignal): Promise<ViewHead | undefined> {
    const item = await this.#table.get(HEAD_KEY, signal, false);
    return item === undefined ? undefined : toViewHead(item);
  }

  /**
   * Updates the cells to `head`. If a replica does not have a cell in that version yet, the old one stays until the
   * next time.
   */
  async readCells(head: ViewHead, request: ViewRequest, signal: AbortSignal): Promise<ViewReading> {
    const { body, bodyFence: fence } = head;
    if (body === undefined) return { fleet: undefined, catalogue: undefined, isSharded: false, isComplete: false };
    const plan = planOf(body, request);
    if (!plan.hasIndex) this.#index = undefined; // no gatherer keeps this view up
    const wanted = this.#wantedFirst(fence, body, plan);
    const items = await this.#fetch(wanted, signal);
    const isReadable = !plan.hasIndex || this.#takeIndex(items.get(INDEX_CELL_KEY.pk), fence, body);
    const isIndexHeld = this.#index?.fence === fence && this.#index.count === body.records.length;
    const index = isIndexHeld ? this.#index : undefined;
    const { isPartial, isSharded, models } = plan;
    // A replica lags behind a new gatherer. The known cells are good enough until the next time.
    const isLate = isPartial && isReadable && index === undefined && this.#fleet !== undefined;
    if (isLate) return { fleet: this.#fleet, catalogue: undefined, isSharded, isComplete: false };
    const all = body.records.length;
    const records =
      isPartial && index !== undefined ? cellsOf(index.content, models, all) : new Set(body.records.keys());
    if (isPartial) {
      const further = new Map<string, ItemKey>(); // cells that only the new index names
      for (const cell of records) this.#want('records', this.#records, cell, fence, body, further);
      for (const name of wanted.keys()) further.delete(name);
      for (const [name, item] of await this.#fetch(further, signal)) items.set(name, item);
    }
    const isChanged = this.#takeCells(fence, body, plan, records, items);
    const isComplete = this.#holdsAll(fence, body, records);
    if (isComplete && (isChanged || this.#fleet === undefined)) this.#fleet = this.#compose();
    const catalogue = this.#takeCatalogue(`${fence}/${body.catalogue}`, items.get(CATALOGUE_CELL_KEY.pk), fence);
    return { fleet: this.#fleet, catalogue, isSharded, isComplete };
  }

  /** Returns the items that a reading asks for before it knows the new index: those that the known index names. */
  #wantedFirst(
    fence: number,
    body: HeadBody,
    { hasIndex, isPartial, models, loads }: ReadingPlan,
  ): Map<string, ItemKey> {
    const wanted = new Map<string, ItemKey>();
    if (hasIndex && !this.#holdsIndex(fence, body)) wanted.set('index', INDEX_CELL_KEY);
    const all = body.records.length;
    const likely = this.#index === undefined ? [FIRST_CELL] : cellsOf(this.#index.content, models, all);
    const records = isPartial ? likely : body.records.keys();
    for (const cell of records) this.#want('records', this.#records, cell, fence, body, wanted);
    for (const cell of loads) this.#want('loads', this.#loads, cell, fence, body, wanted);
    const isKnown = this.#catalogue === `${fence}/${body.catalogue}`;
    if (!isKnown && body.catalogue > 0) wanted.set('catalogue', CATALOGUE_CELL_KEY);
    return wanted;
  }

  /** Takes the cells of a reading over, and drops those that it left out. Returns whether that changed anything. */
  #takeCells(
    fence: number,
    body: HeadBody,
    { isPartial, isSharded, loads }: ReadingPlan,
    records: ReadonlySet<number>,
    items: ReadonlyMap<string | undefined, Item>,
  ): boolean {
    const read = (kind: CellKind, cell: number): Item | undefined => items.get(cellItemKey(kind, cell).pk);
    let isChanged = take(this.#records, fence, body.records, (cell) => read('records', cell), unpackRecordCell);
    isChanged = take(this.#loads, fence, body.loads, (cell) => read('loads', cell), unpackLoadCell) || isChanged;
    if (isSharded) isChanged = keepOnly(this.#loads, new Set(loads)) || isChanged;
    if (isPartial && this.#isOf(fence, body)) isChanged = keepOnly(this.#records, records) || isChanged;
    return isChanged;
  }

  /** Places of the models, as last read; undefined if they are not known. */
  get index(): ViewIndex | undefined {
    return this.#index?.content;
  }

  async #fetch(wanted: ReadonlyMap<string, ItemKey>, signal: AbortSignal): Promise<Map<string | undefined, Item>> {
    const items = wanted.size === 0 ? [] : await this.#table.batchGet([...wanted.values()], signal);
    return new Map(items.map((item) => [item.pk?.S, item]));
  }

  #holdsIndex(fence: number, { index, records }: HeadBody): boolean {
    const held = this.#index;
    return held?.fence === fence && held.count === records.length && held.version >= index;
  }

  /**
   * Takes the index over. If a replica does not have it in that version yet, the old one stays. Returns false for an
   * index that cannot be read, such as one of a later version, because the old one would then never be updated.
   */
  #takeIndex(item: Item | undefined, fence: number, { index, records: { length: count } }: HeadBody): boolean {
    const [version, bytes] = [Number(item?.version?.N), item?.body?.B];
    const isMeant = Number(item?.fence?.N) === fence && Number(item?.cells?.N) === count && version >= index;
    if (!isMeant) return true;
    const content = bytes && unpackIndex(bytes);
    this.#index = content && { fence, count, version, content };
    return content !== undefined;
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

  #isOf(fence: number, body: HeadBody): boolean {
    return this.#records.fence === fence && this.#records.count === body.records.length;
  }

  /** Returns false if some new cells are still missing. */
  #holdsAll(fence: number, body: HeadBody, records: ReadonlySet<number>): boolean {
    if (records.size > 0 && !this.#isOf(fence, body)) return false;
    for (const cell of records) if (!this.#records.cells.has(cell)) return false;
    return true;
  }

  #compose(): Fleet {
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

/** The part of a view that a reading reads. */
interface ReadingPlan {
  /** Whether the view has an index of its models that this reading uses. */
  readonly hasIndex: boolean;
  /** Whether it reads only the cells of some models. */
  readonly isPartial: boolean;
  readonly models: ReadonlySet<string>;
  /** Cells of loads. */
  readonly loads: readonly number[];
  /** Whether it leaves cells of loads out. */
  readonly isSharded: boolean;
}

function planOf(body: HeadBody, { shardKey, models, isWhole = false }: ViewRequest): ReadingPlan {
  const hasIndex = models !== undefined && body.index > 0 && body.records.length > CELLS_WHOLE;
  const isPartial = hasIndex && !isWhole;
  const loads = loadCellsToRead(body.loads.length, shardKey, isPartial);
  return { hasIndex, isPartial, models: models ?? NO_MODELS, loads, isSharded: loads.length < body.loads.length };
}

/**
 * Returns all cells of loads, or only the one of the key if there are many. Without a key, a partial reading returns no
 * cell of many.
 */
function loadCellsToRead(count: number, shardKey: string | undefined, isPartial: boolean): readonly number[] {
  if (shardKey !== undefined && count > LOAD_CELLS_ALL) return [cellOf(shardKey, count)];
  if (count > LOAD_CELLS_ALL && isPartial) return [];
  return Array.from({ length: count }, (_, cell) => cell);
}

/** Takes cells that were read over into `held`. Returns true if that changed it. */
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
    // Takes a cell only from the same gatherer, with as many cells as the head says, and not older. Otherwise a replica
    // lags, or the head is about to change.
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

/**
 * Drops the cells that were not read now, because nothing would show that their content is old. Returns true if there
 * were any.
 */
function keepOnly<T>(held: HeldCells<T>, cells: ReadonlySet<number>): boolean {
  const others = [...held.cells.keys()].filter((cell) => !cells.has(cell));
  for (const cell of others) held.cells.delete(cell);
  return others.length > 0;
}
