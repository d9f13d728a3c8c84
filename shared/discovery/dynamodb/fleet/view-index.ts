import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { PackedReader, PackedWriter } from '../../packed.ts';
import type { Member } from './members.ts';
import { cardSumsOf } from './record-bytes.ts';
import { CELLS_MAX } from './view-bytes.ts';

/** Names by which clients ask for a card. */
export interface CardNames {
  readonly name: string;
  readonly aliases: readonly string[];
}

/**
 * A card of the fleet, with the cells of records that contain its processes. A card that is only remembered has no
 * cells.
 */
export interface IndexedCard extends CardNames {
  readonly sum: string;
  readonly cells: readonly number[];
}

/** Places of each model in the view, so that a process which serves one model need not read the others. */
export interface ViewIndex {
  readonly cards: readonly IndexedCard[];
  /** Cells that hold processes without a model, such as routers. */
  readonly others: readonly number[];
}

/** Most cards in an index. With more, there is no index and processes read everything. */
export const CARDS_MAX = 4096;
/** Largest index: an item takes 400 KB. */
const PACKED_BYTES_MAX = 384 * 1024;
const INFLATED_BYTES_MAX = 16 * 1024 * 1024;
const ALIASES_MAX = 256;
const VERSION = 1;

/**
 * Returns the index for the content of `cells`; undefined if it would be too large. A card whose names are unknown is
 * left out with its processes, which cannot be shown yet.
 *
 * @param remembered checksums of cards that count without a process
 */
export function indexOf(
  cells: readonly (readonly Pick<Member, 'block'>[])[],
  remembered: Iterable<string>,
  namesOf: (sum: string) => CardNames | undefined,
): ViewIndex | undefined {
  const cellsOf = new Map<string, Set<number>>();
  for (const sum of remembered) cellsOf.set(sum, new Set());
  const others = new Set<number>();
  for (const [cell, members] of cells.entries()) {
    for (const { block } of members) {
      const sums = cardSumsOf(block);
      if (sums.length === 0) others.add(cell);
      for (const sum of sums) {
        const known = cellsOf.get(sum);
        if (known === undefined) cellsOf.set(sum, new Set([cell]));
        else known.add(cell);
      }
    }
  }
  if (cellsOf.size > CARDS_MAX) return undefined;
  const cards: IndexedCard[] = [];
  for (const [sum, ofCard] of [...cellsOf].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const names = namesOf(sum);
    if (names !== undefined) cards.push({ sum, ...names, cells: sorted(ofCard) });
  }
  return { cards, others: sorted(others) };
}

/** Returns the own names of the models that `asked` may mean. There are several if models share an alias. */
export function modelsAskedAs({ cards }: ViewIndex, asked: string): ReadonlySet<string> {
  return new Set(cards.flatMap(({ name, aliases }) => (name === asked || aliases.includes(asked) ? [name] : [])));
}

/** Returns the cells, of `count`, that contain the models of those names, and the names without a cell. */
export function cellsOf({ cards, others }: ViewIndex, models: ReadonlySet<string>, count: number): ReadonlySet<number> {
  const cells = new Set(others);
  for (const card of cards) if (models.has(card.name)) for (const cell of card.cells) cells.add(cell);
  for (const cell of cells) if (cell >= count) cells.delete(cell); // a faulty index names cells that do not exist
  return cells;
}

/**
 * Returns whether to show a process, given the places of `models`. A process with cards of only other models is not
 * shown.
 */
export function shows({ cards }: ViewIndex, models: ReadonlySet<string>): (member: Pick<Member, 'block'>) => boolean {
  const others = new Set(cards.flatMap(({ sum, name }) => (models.has(name) ? [] : [sum])));
  return ({ block }) => {
    const sums = cardSumsOf(block);
    // a card that is missing in the index is newer than it, and counts
    return sums.length === 0 || sums.some((sum) => !others.has(sum));
  };
}

/**
 * Returns undefined if the index would be too large to store or read. Then the view has no index, as with too many
 * cards.
 */
export function packIndex({ cards, others }: ViewIndex): Uint8Array | undefined {
  const writer = new PackedWriter(4096);
  const writeCells = (cells: readonly number[]): void => {
    writer.count(cells.length);
    for (const cell of cells) writer.count(cell);
  };
  writer.byte(VERSION);
  writeCells(others);
  for (const { sum, name, aliases, cells } of cards) {
    writer.hex(sum);
    writer.text(name);
    writer.count(aliases.length);
    for (const alias of aliases) writer.text(alias);
    writeCells(cells);
  }
  const bytes = writer.finish();
  const packed = bytes.length > INFLATED_BYTES_MAX ? undefined : deflateRawSync(bytes);
  return packed !== undefined && packed.length <= PACKED_BYTES_MAX ? packed : undefined;
}

/** Returns undefined for bytes that `packIndex` cannot have made, and for those of a later version. */
export function unpackIndex(bytes: Uint8Array): ViewIndex | undefined {
  try {
    const reader = new PackedReader(inflateRawSync(bytes, { maxOutputLength: INFLATED_BYTES_MAX }));
    if (reader.byte() !== VERSION) return undefined;
    const readCells = (): number[] =>
      Array.from({ length: reader.count(CELLS_MAX) }, () => reader.count(CELLS_MAX - 1));
    const others = readCells();
    const cards: IndexedCard[] = [];
    while (!reader.isAtEnd) {
      if (cards.length === CARDS_MAX) return undefined;
      const [sum, name] = [reader.hex(), reader.text()];
      const aliases = Array.from({ length: reader.count(ALIASES_MAX) }, () => reader.text());
      cards.push({ sum, name, aliases, cells: readCells() });
    }
    return { cards, others };
  } catch {
    return undefined;
  }
}

function sorted(numbers: ReadonlySet<number>): readonly number[] {
  return [...numbers].sort((one, other) => one - other);
}
