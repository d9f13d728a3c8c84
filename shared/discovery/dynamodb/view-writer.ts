import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import type { ItemKey, Table } from '../table/table.ts';
import { ageMs, type Moment, type TableTime } from '../table/table-time.ts';
import type { Fleet, Member } from './fleet/members.ts';
import { Placement } from './fleet/placement.ts';
import { cellOf, firstCellCount, nextCellCount, packHead, packLoadCell, packRecordCell } from './fleet/view-bytes.ts';
import { type CardNames, indexOf, packIndex, type ViewIndex } from './fleet/view-index.ts';
import { CATALOGUE_CELL_KEY, type CellKind, cellItemKey, HEAD_KEY, INDEX_CELL_KEY } from './schema.ts';
import type { ViewHead } from './view-head.ts';

/** Thrown if another process holds the head. This process then writes nothing more of what it has gathered. */
export class FenceLost extends Error {
  override readonly name = 'FenceLost';
}

interface WriterOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  /** Name of the process; any text except the empty one. */
  readonly holder: string;
  /** Time for which the head is held without a write. */
  readonly ttlMs: number;
}

/** The data of a view. */
export interface ViewContent {
  readonly fleet: Fleet;
  /** Packed catalogue. */
  readonly catalogue: Uint8Array;
  /** Checksums of the catalogue's cards. */
  readonly remembered?: readonly string[];
  /** Names by which clients ask for a card; undefined while they are unknown. */
  readonly namesOf?: (sum: string) => CardNames | undefined;
  /** Whether `namesOf` knows more than with the last view. @default false */
  readonly hasNewNames?: boolean;
}

interface WrittenCells {
  count: number;
  /** Content by cell: the data, its packed form, and the round in which the cell was written. */
  readonly cells: Map<number, { readonly mark: string | Uint8Array; readonly version: number; readonly bytes: number }>;
}

const FENCE_IS_MINE = 'attribute_not_exists(pk) OR fence <= :fence';

/**
 * Writes the view of the fleet while this process holds the head. The head is its lease, which each write of the head
 * renews. A process that takes the head raises the fence, under which it writes cells from then on. Under a new fence,
 * all cells are written once, so that the table refuses the writes of a holder that was frozen.
 */
export class ViewWriter {
  readonly #options: WriterOptions;
  readonly #records: WrittenCells = { count: 0, cells: new Map() };
  readonly #loads: WrittenCells = { count: 0, cells: new Map() };
  #catalogue: { readonly mark: Uint8Array; readonly version: number } | undefined;
  #index: { readonly mark: Uint8Array; readonly version: number; readonly count: number } | undefined;
  #placement: Placement | undefined;
  /** Changes since the last write of the index. */
  #isIndexDue = true;
  #remembered: readonly string[] | undefined;
  #fence: number | undefined;
  #round = 0;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  get isHolder(): boolean {
    return this.#fence !== undefined;
  }

  /** Takes the head if it is still as it was `seen`. Returns false if another process was faster. */
  async take(seen: ViewHead | undefined, signal: AbortSignal): Promise<boolean> {
    const { table, time, holder } = this.#options;
    const fence = (seen?.fence || 0) + 1;
    const asSeen =
      seen === undefined
        ? { condition: 'attribute_not_exists(pk)' }
        : { condition: 'fence = :seen AND writtenAtMs = :written AND takenAtMs = :taken AND holder = :holder' };
    const values =
      seen === undefined
        ? { ':written': 0 }
        : { ':seen': seen.fence, ':written': seen.writtenAtMs, ':taken': seen.takenAtMs, ':holder': seen.holder };
    const isTaken = await table.update(
      'SET fence = :fence, holder = :me, takenAtMs = :now, writtenAtMs = :written',
      { key: HEAD_KEY, ...asSeen, values: { ...values, ':fence': fence, ':me': holder, ':now': time.nowMs() } },
      signal,
    );
    if (isTaken) this.#begin(fence);
    return isTaken;
  }

  /**
   * Writes the cells that changed, then the head.
   *
   * @param began start of the reading of the fleet. If the reading took longer than the lease, nothing is written.
   * @throws FenceLost if another process holds the head by now
   */
  async write(content: ViewContent, began: Moment, signal: AbortSignal): Promise<void> {
    const { fleet, catalogue } = content;
    const { ttlMs, clock } = this.#options;
    if (this.#fence === undefined || ageMs(began, clock) > ttlMs) throw this.#lose('the reading took too long');
    this.#round++;
    const members = [...fleet.values()].sort((one, other) => (one.leaseId < other.leaseId ? -1 : 1));
    await this.#writeRecords(members, content, signal);
    await this.#writeLoads(members, signal);
    if (this.#catalogue === undefined || Buffer.compare(this.#catalogue.mark, catalogue) !== 0) {
      await this.#put(CATALOGUE_CELL_KEY, 1, catalogue, signal);
      this.#catalogue = { mark: catalogue, version: this.#round };
    }
    if (ageMs(began, clock) > ttlMs) throw this.#lose('the writing took too long');
    await this.#writeHead(members.length, signal);
  }

  /** Gives the head up, so that another process takes it at once. */
  async release(signal: AbortSignal): Promise<void> {
    if (this.#fence === undefined) return;
    const values = { ':fence': this.#fence, ':none': '' };
    this.#fence = undefined;
    await this.#options.table.update(
      'SET holder = :none',
      { key: HEAD_KEY, condition: 'fence = :fence', values },
      signal,
    );
  }

  #begin(fence: number): void {
    this.#fence = fence;
    this.#round = 0;
    for (const written of [this.#records, this.#loads]) {
      written.count = 0;
      written.cells.clear();
    }
    this.#catalogue = undefined;
    this.#index = undefined;
    this.#placement = undefined;
    this.#isIndexDue = true;
  }

  #lose(why: string): FenceLost {
    this.#fence = undefined;
    return new FenceLost(why);
  }

  async #writeRecords(members: readonly Member[], content: ViewContent, signal: AbortSignal): Promise<void> {
    const held = this.#records;
    const { remembered = [], namesOf = () => undefined } = content;
    const rawBytes = members.reduce((sum, { block }) => sum + block.length + 16, 0);
    if (resize(held, () => firstCellCount(rawBytes, true)) || this.#placement === undefined)
      this.#placement = new Placement(held.count, (sum) => namesOf(sum)?.name);
    const byCell = this.#placement.place(members);
    await this.#writeCells('records', held, byCell, signal, (ofCell, before) => {
      const mark = ofCell.map(({ leaseId, epoch, rev }) => `${leaseId}/${epoch}/${rev}`).join();
      if (mark === before) return undefined;
      this.#isIndexDue = true;
      return { mark, bytes: packRecordCell(ofCell) };
    });
    this.#isIndexDue ||= content.hasNewNames === true || this.#remembered !== remembered;
    if (this.#isIndexDue) await this.#writeIndex(indexOf(byCell, remembered, namesOf), signal);
    this.#remembered = remembered;
    this.#isIndexDue = false;
  }

  async #writeIndex(index: ViewIndex | undefined, signal: AbortSignal): Promise<void> {
    const bytes = index && packIndex(index);
    const { count } = this.#records;
    const before = this.#index;
    if (bytes !== undefined && before?.count === count && Buffer.compare(before.mark, bytes) === 0) return;
    if (bytes !== undefined) await this.#put(INDEX_CELL_KEY, count, bytes, signal);
    this.#index = bytes && { mark: bytes, version: this.#round, count };
  }

  async #writeLoads(members: readonly Member[], signal: AbortSignal): Promise<void> {
    const held = this.#loads;
    resize(held, () =>
      firstCellCount(
        members.reduce((sum, { load }) => sum + load.length + 10, 0),
        false,
      ),
    );
    const byCell = Array.from({ length: held.count }, (): Member[] => []);
    for (const member of members) byCell[cellOf(member.leaseId, held.count)]?.push(member);
    await this.#writeCells('loads', held, byCell, signal, (ofCell, before) => {
      const bytes = packLoadCell(ofCell);
      const isSame = before instanceof Uint8Array && Buffer.compare(bytes, before) === 0;
      return isSame ? undefined : { mark: bytes, bytes };
    });
  }

  async #writeCells(
    kind: CellKind,
    held: WrittenCells,
    byCell: readonly (readonly Member[])[],
    signal: AbortSignal,
    pack: (
      members: readonly Member[],
      before: string | Uint8Array | undefined,
    ) => { readonly mark: string | Uint8Array; readonly bytes: Uint8Array } | undefined,
  ): Promise<void> {
    await inBatches([...byCell.entries()], async ([cell, ofCell]) => {
      const packed = pack(ofCell, held.cells.get(cell)?.mark);
      if (packed === undefined) return;
      await this.#put(cellItemKey(kind, cell), held.count, packed.bytes, signal);
      held.cells.set(cell, { mark: packed.mark, version: this.#round, bytes: packed.bytes.length });
    });
  }

  async #put(key: ItemKey, cells: number, body: Uint8Array, signal: AbortSignal): Promise<void> {
    const values = { ':fence': this.#fence ?? 0, ':version': this.#round, ':cells': cells, ':body': body };
    const isWritten = await this.#options.table.update(
      'SET fence = :fence, #version = :version, cells = :cells, body = :body',
      { key, condition: FENCE_IS_MINE, names: { '#version': 'version' }, values },
      signal,
    );
    if (!isWritten) throw this.#lose('another process writes it');
  }

  async #writeHead(leases: number, signal: AbortSignal): Promise<void> {
    const { table, time } = this.#options;
    const versions = ({ cells }: WrittenCells): number[] =>
      [...cells].sort(([one], [other]) => one - other).map(([, { version }]) => version);
    const body = packHead({
      round: this.#round,
      leases,
      records: versions(this.#records),
      loads: versions(this.#loads),
      catalogue: this.#catalogue?.version ?? 0,
      index: this.#index?.version ?? 0,
    });
    const values = { ':fence': this.#fence ?? 0, ':body': body, ':now': time.nowMs() };
    const isWritten = await table.update(
      'SET body = :body, bodyFence = :fence, writtenAtMs = :now',
      { key: HEAD_KEY, condition: 'fence = :fence', values },
      signal,
    );
    if (!isWritten) throw this.#lose('another process writes it');
  }
}

/**
 * Changes the number of cells if their content has outgrown it or shrunk. All cells are then written again. Returns
 * true if the number changed.
 */
function resize(held: WrittenCells, first: () => number): boolean {
  const bytes = [...held.cells.values()].reduce((sum, cell) => sum + cell.bytes, 0);
  const count = held.count === 0 ? first() : nextCellCount(held.count, bytes);
  if (count === held.count) return false;
  held.count = count;
  held.cells.clear();
  return true;
}
