import type { RankWeight } from '../scheduler/types.ts';

/** A worker as the fleet item knows it: enough to choose it and to reach it. */
export interface FleetWorker {
  /** Instance id, lower-case hex, at most 53 bits. */
  readonly id: string;
  /** `tcp` transport of its discovery record: `host:port/{instance}/...`. */
  readonly address: string;
  /** When its lease runs out, table time. */
  readonly aliveUntilMs: number;
  /** False = it gets no new request: draining, stalled or busy. */
  readonly isAvailable: boolean;
  /** Of all its ranks together. */
  readonly load: RankWeight;
  /** Share of its KV cache in use, 0 to 1. */
  readonly kvUsedShare: number;
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
}

/** One cell of a fleet. */
export interface FleetCell {
  /** How many cells the fleet has; a power of two. */
  readonly cells: number;
  /** How many copies of this cell there are. */
  readonly copies: number;
  /** Longest time until it is written again, if its writer lives. */
  readonly rewriteMs: number;
  readonly workers: readonly FleetWorker[];
}

/*
 * A packed cell, big-endian:
 *
 *   [version: u8 = 1] [copies: u8] [cells: u16] [rows: u16] [rewrite ms: u32] [suffix length: u16] [suffix]
 *   rows of 27 bytes:
 *     [id: 7] [IPv4: 4 | offset of text: u32] [port: u16 | length of text] [flags: u8] [alive: u8, 0.1 s]
 *     [KV used: u8, 1/255] [requests: u16] [blocks: u24] [prefill tokens: u24] [rank size: u8] [first rank: u16]
 *   texts of addresses that are not IPv4 with the suffix of the cell
 *
 * Amounts that do not fit are cut to the largest that does. 256 rows take 7 KB, which with the keys stays below 8 KB: one
 * read unit.
 */

const VERSION = 1;
const HEADER_BYTES = 12;
const ROW_BYTES = 27;
const IS_AVAILABLE = 1;
const IS_TEXT = 2;
const ALIVE_STEP_MS = 100;
const U8_MAX = 0xff;
const U16_MAX = 0xffff;
const U24_MAX = 0xff_ffff;
const TEXT_BYTES_MAX = 255;

/** Room for one cell; an item of 8 KB less its keys and other attributes. */
export const CELL_BYTES_MAX = 7900;
/** Workers in one cell. */
export const CELL_WORKERS_MAX = 256;

/** Bytes of `cell` as packed. */
export function packedBytes(cell: Pick<FleetCell, 'workers'>): number {
  const suffix = suffixOf(cell.workers);
  const texts = cell.workers.reduce((sum, worker) => sum + textBytes(worker, suffix), 0);
  return HEADER_BYTES + Buffer.byteLength(suffix) + ROW_BYTES * cell.workers.length + texts;
}

/** @param nowMs table time, the same that the item is written with */
export function packFleetCell(cell: FleetCell, nowMs: number): Uint8Array {
  const suffix = suffixOf(cell.workers);
  const bytes = Buffer.alloc(packedBytes(cell));
  bytes[0] = VERSION;
  bytes[1] = cell.copies;
  bytes.writeUInt16BE(cell.cells, 2);
  bytes.writeUInt16BE(cell.workers.length, 4);
  bytes.writeUInt32BE(cell.rewriteMs, 6);
  const suffixBytes = bytes.write(suffix, HEADER_BYTES);
  bytes.writeUInt16BE(suffixBytes, 10);
  let at = HEADER_BYTES + suffixBytes;
  let textAt = at + ROW_BYTES * cell.workers.length;
  for (const worker of cell.workers) {
    textAt += packRow(bytes, at, worker, { suffix, textAt, nowMs });
    at += ROW_BYTES;
  }
  return bytes;
}

/** A packed cell without what changes by the mere passing of time: equal when the fleet is the same. */
export function withoutAges(packed: Uint8Array): Buffer {
  const bytes = Buffer.from(packed);
  const rowsAt = HEADER_BYTES + bytes.readUInt16BE(10);
  const end = rowsAt + ROW_BYTES * bytes.readUInt16BE(4);
  for (let at = rowsAt + 14; at < end; at += ROW_BYTES) bytes[at] = bytes[at] === 0 ? 0 : 1;
  return bytes;
}

/** The cell that `bytes` hold. @throws RangeError when they are no cell, or of a later version */
export function unpackFleetCell(bytes: Uint8Array, writtenAtMs: number): FleetCell {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view[0] !== VERSION) throw new RangeError(`a fleet item of version ${view[0]}, not ${VERSION}`);
  const rows = view.readUInt16BE(4);
  const rowsAt = HEADER_BYTES + view.readUInt16BE(10);
  if (rowsAt + ROW_BYTES * rows > view.length) throw new RangeError('a fleet item that is cut short');
  const suffix = view.toString('utf8', HEADER_BYTES, rowsAt);
  const workers: FleetWorker[] = [];
  for (let row = 0; row < rows; row++) workers.push(unpackRow(view, rowsAt + ROW_BYTES * row, suffix, writtenAtMs));
  return { cells: view.readUInt16BE(2), copies: view[1] ?? 1, rewriteMs: view.readUInt32BE(6), workers };
}

interface RowPlace {
  readonly suffix: string;
  /** Where the next text goes. */
  readonly textAt: number;
  readonly nowMs: number;
}

/** Writes one row; returns the bytes of its text. */
function packRow(bytes: Buffer, at: number, worker: FleetWorker, { suffix, textAt, nowMs }: RowPlace): number {
  const { address, load, isAvailable } = worker;
  const plain = plainAddress(worker, suffix);
  bytes.write(worker.id.padStart(14, '0'), at, 'hex');
  if (plain === undefined) {
    bytes.writeUInt32BE(textAt, at + 7);
    bytes.writeUInt16BE(bytes.write(address, textAt), at + 11);
  } else {
    bytes.set(plain.ip, at + 7);
    bytes.writeUInt16BE(plain.port, at + 11);
  }
  bytes[at + 13] = (isAvailable ? IS_AVAILABLE : 0) | (plain === undefined ? IS_TEXT : 0);
  bytes[at + 14] = within((worker.aliveUntilMs - nowMs) / ALIVE_STEP_MS, U8_MAX);
  bytes[at + 15] = within(Math.round(worker.kvUsedShare * U8_MAX), U8_MAX);
  bytes.writeUInt16BE(within(load.requests, U16_MAX), at + 16);
  bytes.writeUIntBE(within(load.decodeBlocks, U24_MAX), at + 18, 3);
  bytes.writeUIntBE(within(load.prefillTokens, U24_MAX), at + 21, 3);
  bytes[at + 24] = within(worker.dataParallelSize, U8_MAX);
  bytes.writeUInt16BE(within(worker.dataParallelStartRank, U16_MAX), at + 25);
  return plain === undefined ? Buffer.byteLength(address) : 0;
}

function unpackRow(view: Buffer, at: number, suffix: string, writtenAtMs: number): FleetWorker {
  const id = stripZeros(view.toString('hex', at, at + 7));
  const flags = view[at + 13] ?? 0;
  return {
    id,
    address: addressAt(view, at, (flags & IS_TEXT) !== 0, `/${id}${suffix}`),
    aliveUntilMs: writtenAtMs + (view[at + 14] ?? 0) * ALIVE_STEP_MS,
    isAvailable: (flags & IS_AVAILABLE) !== 0,
    load: {
      requests: view.readUInt16BE(at + 16),
      decodeBlocks: view.readUIntBE(at + 18, 3),
      prefillTokens: view.readUIntBE(at + 21, 3),
    },
    kvUsedShare: (view[at + 15] ?? 0) / U8_MAX,
    dataParallelStartRank: view.readUInt16BE(at + 25),
    dataParallelSize: view[at + 24] ?? 1,
  };
}

function addressAt(view: Buffer, at: number, isText: boolean, path: string): string {
  const port = view.readUInt16BE(at + 11);
  if (!isText) return `${view[at + 7]}.${view[at + 8]}.${view[at + 9]}.${view[at + 10]}:${port}${path}`;
  const textAt = view.readUInt32BE(at + 7);
  if (textAt + port > view.length) throw new RangeError('a fleet item that is cut short');
  return view.toString('utf8', textAt, textAt + port); // the port's place holds the length
}

const ADDRESS = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3}):(\d{1,5})\/([0-9a-f]+)(\/.*)?$/;

interface PlainAddress {
  readonly ip: readonly number[];
  readonly port: number;
  readonly instance: string;
  readonly suffix: string;
}

/** Addresses read lately: those of a fleet come again every second. */
const PARSED = new Map<string, PlainAddress | undefined>();
const PARSED_MAX = 32_768;

/** The parts of `a.b.c.d:port/{instance}{suffix}`; undefined when the address is of another form. */
function parseAddress(address: string): PlainAddress | undefined {
  const known = PARSED.get(address);
  if (known !== undefined || PARSED.has(address)) return known;
  const match = ADDRESS.exec(address);
  let parsed: PlainAddress | undefined;
  if (match !== null) {
    const [ip, port, instance, suffix] = [
      match.slice(1, 5).map(Number),
      Number(match[5]),
      match[6] ?? '',
      match[7] ?? '',
    ];
    const isExact = `${ip.join('.')}:${port}/${instance}${suffix}` === address; // no leading zeros
    if (isExact && port <= U16_MAX && ip.every((part) => part <= U8_MAX)) parsed = { ip, port, instance, suffix };
  }
  if (PARSED.size >= PARSED_MAX) PARSED.clear();
  PARSED.set(address, parsed);
  return parsed;
}

/** The parts of the address when it is the worker's own and ends in `suffix`. */
function plainAddress({ address, id }: FleetWorker, suffix: string): PlainAddress | undefined {
  const parsed = parseAddress(address);
  return parsed?.instance === id && parsed.suffix === suffix ? parsed : undefined;
}

/** What follows the instance in the address of the first worker: the same for all in most fleets. */
function suffixOf(workers: readonly FleetWorker[]): string {
  const suffix = workers[0] === undefined ? '' : (parseAddress(workers[0].address)?.suffix ?? '');
  return Buffer.byteLength(suffix) > TEXT_BYTES_MAX ? '' : suffix;
}

function textBytes(worker: FleetWorker, suffix: string): number {
  return plainAddress(worker, suffix) === undefined ? Buffer.byteLength(worker.address) : 0;
}

function stripZeros(hex: string): string {
  return hex.replace(/^0+(?=.)/, '');
}

function within(value: number, max: number): number {
  return Math.max(0, Math.min(max, Math.floor(value)));
}

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
