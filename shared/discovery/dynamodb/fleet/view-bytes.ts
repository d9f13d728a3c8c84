import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { fnv1a } from '../../../records/index.ts';
import { PackedReader, PackedWriter } from '../../packed.ts';
import type { Member } from './members.ts';

/** Target size of a cell in bytes, plus or minus half of it. */
const CELL_BYTES = 4096;
/**
 * Largest number of cells, beyond which cells grow instead. This bound lets one request read everything that changed,
 * and keeps the head below one kilobyte.
 */
export const CELLS_MAX = 64;
const INFLATED_BYTES_MAX = 64 * 1024 * 1024;
const BLOCK_BYTES_MAX = 1024 * 1024;
const LOAD_BYTES_MAX = 256 * 1024;
/**
 * Compression of records, which repeat ids, names and addresses. They shrink to about a sixth. It favours speed over
 * size.
 */
const DEFLATE_LEVEL = 3;
const DEFLATE_RATIO = 6;

/** Content of a cell about one process, without its load. */
export type MemberRecords = Omit<Member, 'load'>;

/** Returns the number of the cell, of `count` (a power of two), that a lease or a shard key belongs to. */
export function cellOf(name: string, count: number): number {
  const hash = fnv1a(name); // mixed once more, because its low bits are weak
  return (Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 16) & (count - 1);
}

/**
 * Returns how many cells should hold `bytes`, if there are `count` now: twice as many once they are nearly full, half
 * as many once they are nearly empty. The number changes rarely, because each change moves half of the fleet to other
 * cells.
 */
export function nextCellCount(count: number, bytes: number): number {
  const mean = bytes / count;
  if (mean > 1.5 * CELL_BYTES && count < CELLS_MAX) return 2 * count;
  return mean < CELL_BYTES / 3 && count > 1 ? count / 2 : count;
}

/** Returns how many cells suit `bytes` of records (`isDeflated`) or of loads at the start. */
export function firstCellCount(bytes: number, isDeflated: boolean): number {
  const size = isDeflated ? bytes / DEFLATE_RATIO : bytes;
  let count = 1;
  while (count < CELLS_MAX && size / count > CELL_BYTES) count *= 2;
  return count;
}

export function packRecordCell(members: readonly MemberRecords[]): Uint8Array {
  const writer = new PackedWriter(16 * 1024);
  for (const { leaseId, epoch, rev, block } of members) {
    writer.hex(leaseId);
    writer.count(epoch);
    writer.count(rev);
    writer.bytes(block);
  }
  return deflateRawSync(writer.finish(), { level: DEFLATE_LEVEL });
}

/** Returns undefined for bytes that `packRecordCell` cannot have made. */
export function unpackRecordCell(bytes: Uint8Array): readonly MemberRecords[] | undefined {
  try {
    const reader = new PackedReader(inflateRawSync(bytes, { maxOutputLength: INFLATED_BYTES_MAX }));
    const members: MemberRecords[] = [];
    while (!reader.isAtEnd) {
      members.push({
        leaseId: reader.hex(),
        epoch: reader.count(),
        rev: reader.count(),
        block: reader.bytes(BLOCK_BYTES_MAX),
      });
    }
    return members;
  } catch {
    return undefined;
  }
}

export function packLoadCell(members: readonly Pick<Member, 'leaseId' | 'load'>[]): Uint8Array {
  const writer = new PackedWriter(CELL_BYTES);
  for (const { leaseId, load } of members) {
    if (load.length === 0) continue;
    writer.hex(leaseId);
    writer.bytes(load);
  }
  return writer.finish();
}

/** Returns the packed loads by lease id; undefined for bytes that `packLoadCell` cannot have made. */
export function unpackLoadCell(bytes: Uint8Array): ReadonlyMap<string, Uint8Array> | undefined {
  try {
    const reader = new PackedReader(bytes);
    const loads = new Map<string, Uint8Array>();
    while (!reader.isAtEnd) loads.set(reader.hex(), reader.bytes(LOAD_BYTES_MAX));
    return loads;
  } catch {
    return undefined;
  }
}

/**
 * Description of the view in the head: the round of the gatherer in which each cell was last written. Rounds begin at
 * 1.
 */
export interface HeadBody {
  readonly round: number;
  /** Number of live processes. */
  readonly leases: number;
  readonly records: readonly number[];
  readonly loads: readonly number[];
  /** Round of the catalogue; 0 = there is none. */
  readonly catalogue: number;
  /**
   * Round of the index. 0 = there is no index, because an earlier release wrote the view or there are too many cards.
   */
  readonly index: number;
}

const VERSION = 1;

/** Packs each round as its distance from the current one: 130 cells take 150 to 400 bytes. */
export function packHead({ round, leases, records, loads, catalogue, index }: HeadBody): Uint8Array {
  const writer = new PackedWriter();
  writer.byte(VERSION);
  writer.count(round);
  writer.count(leases);
  writer.count(round - catalogue);
  for (const versions of [records, loads]) {
    writer.count(versions.length);
    for (const version of versions) writer.count(round - version);
  }
  writer.count(round - index); // readers of earlier versions end here
  return writer.finish();
}

/** Returns undefined for bytes that `packHead` cannot have made, and for those of a later version. */
export function unpackHead(bytes: Uint8Array): HeadBody | undefined {
  try {
    const reader = new PackedReader(bytes);
    if (reader.byte() !== VERSION) return undefined;
    const round = reader.count();
    const leases = reader.count();
    const catalogue = round - reader.count(round);
    const readVersions = (): number[] => {
      const count = reader.count(CELLS_MAX);
      if (!Number.isInteger(Math.log2(count))) throw new RangeError(`${count} cells`);
      return Array.from({ length: count }, () => round - reader.count(round - 1));
    };
    const [records, loads] = [readVersions(), readVersions()];
    return { round, leases, catalogue, records, loads, index: reader.isAtEnd ? 0 : round - reader.count(round) };
  } catch {
    return undefined;
  }
}
