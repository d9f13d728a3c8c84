import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { fnv1a } from '../../../records/index.ts';
import { PackedReader, PackedWriter } from '../../packed.ts';
import type { Member } from './members.ts';

/** A cell is to have this many bytes, give or take half of it. */
const CELL_BYTES = 4096;
/** Beyond this many, cells grow instead: one request reads all that changed, and the head stays below one kilobyte. */
export const CELLS_MAX = 64;
const INFLATED_BYTES_MAX = 64 * 1024 * 1024;
const BLOCK_BYTES_MAX = 1024 * 1024;
const LOAD_BYTES_MAX = 256 * 1024;
/** Records repeat ids, names and addresses: they deflate to about a sixth. Fast rather than small. */
const DEFLATE_LEVEL = 3;
const DEFLATE_RATIO = 6;

/** What a cell says of a process, but for its load. */
export type MemberRecords = Omit<Member, 'load'>;

/** Number of the cell, of `count` (a power of two), that a lease or a shard key belongs to. */
export function cellOf(name: string, count: number): number {
  const hash = fnv1a(name); // mixed once more: its low bits alone are weak
  return (Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 16) & (count - 1);
}

/**
 * How many cells hold `bytes`, when there are `count` now: twice as many once they are nearly full, half as many once they
 * are nearly empty. Changed in between, each change would move half of the fleet to other cells.
 */
export function nextCellCount(count: number, bytes: number): number {
  const mean = bytes / count;
  if (mean > 1.5 * CELL_BYTES && count < CELLS_MAX) return 2 * count;
  return mean < CELL_BYTES / 3 && count > 1 ? count / 2 : count;
}

/** For a start: how many cells suit `bytes` of records (`isDeflated`) or of loads. */
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

/** Undefined for what `packRecordCell` cannot have made. */
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

/** Packed loads by lease id; undefined for what `packLoadCell` cannot have made. */
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

/** What the head says of the view: in which round of the gatherer each cell was written last. Rounds begin at 1. */
export interface HeadBody {
  readonly round: number;
  /** Live processes. */
  readonly leases: number;
  readonly records: readonly number[];
  readonly loads: readonly number[];
  /** 0 = there is no catalogue. */
  readonly catalogue: number;
  /** 0 = there is no index: a gatherer of before, or there are too many cards. */
  readonly index: number;
}

const VERSION = 1;

/** Rounds are written as how long ago they were: 130 cells take 150 to 400 bytes. */
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
  writer.count(round - index); // readers of before end here
  return writer.finish();
}

/** Undefined for what `packHead` cannot have made, and for a later version's. */
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
