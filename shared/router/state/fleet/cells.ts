import { CELL_BYTES_MAX, CELL_WORKERS_MAX, type FleetWorker, packedBytes } from './fleet-item.ts';

/** A cell is planned to be this full, so that chance does not overfill it. */
const FULL_SHARE = 0.75;
/** Cells are merged when they would be this full. */
const MERGE_SHARE = 0.25;
/** Two bytes in the item. */
const CELLS_MAX = 0x8000;

/**
 * Deals the workers of a fleet into cells, a power of two of them. A worker's cell follows from its id, so that it moves only
 * when the number of cells changes, and then every second one; `cellsBefore` keeps the number from going back and forth.
 */
export function dealIntoCells(
  workers: readonly FleetWorker[],
  cellsBefore: number,
): readonly (readonly FleetWorker[])[] {
  const sorted = [...workers].sort((left, right) => (left.id < right.id ? -1 : 1));
  const bytesMean = sorted.length === 0 ? 0 : packedBytes({ workers: sorted }) / sorted.length;
  const roomWorkers = Math.min(CELL_WORKERS_MAX, Math.max(1, Math.floor(CELL_BYTES_MAX / Math.max(1, bytesMean))));
  let cells = Math.max(1, cellsBefore);
  while (cells > 1 && sorted.length / cells < MERGE_SHARE * roomWorkers) cells /= 2;
  while (cells < CELLS_MAX && sorted.length / cells > (cells === 1 ? 1 : FULL_SHARE) * roomWorkers) cells *= 2;
  for (; ; cells *= 2) {
    const dealt = deal(sorted, cells);
    if (dealt !== undefined || cells >= CELLS_MAX) return dealt ?? [];
  }
}

/** The cell that a prefix is served from, and the one it spills to. `prefix` is a hash, low half first. */
export function cellsOfPrefix(
  prefix: readonly [low: number, high: number],
  cells: number,
): { readonly first: number; readonly spill: number } {
  const first = mix(prefix[0]) & (cells - 1);
  const spill = cells === 1 ? 0 : first ^ (1 + (mix(prefix[1]) % (cells - 1))); // never the first
  return { first, spill };
}

/** Undefined when some worker finds no room. A full cell passes workers on to the next ones. */
function deal(sorted: readonly FleetWorker[], cells: number): readonly (readonly FleetWorker[])[] | undefined {
  const dealt: FleetWorker[][] = Array.from({ length: cells }, () => []);
  const displaced: FleetWorker[] = [];
  for (const worker of sorted) {
    const cell = dealt[cellOf(worker.id, cells)]!; // below `cells`
    if (cell.length < CELL_WORKERS_MAX) cell.push(worker);
    else displaced.push(worker);
  }
  for (const cell of dealt) {
    while (packedBytes({ workers: cell }) > CELL_BYTES_MAX) displaced.push(cell.pop()!); // too many bytes, so not empty
  }
  for (const worker of displaced) {
    const start = cellOf(worker.id, cells);
    const hasRoom = (cell: readonly FleetWorker[]): boolean =>
      cell.length < CELL_WORKERS_MAX && packedBytes({ workers: [...cell, worker] }) <= CELL_BYTES_MAX;
    const next = Array.from({ length: cells }, (_, step) => dealt[(start + step) % cells]!).find(hasRoom);
    if (next === undefined) return undefined;
    next.push(worker);
  }
  return dealt;
}

function cellOf(id: string, cells: number): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return mix(hash) & (cells - 1);
}

/** Spreads 32 bits over all 32. */
function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
