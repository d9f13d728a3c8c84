import { PackedReader, PackedWriter } from '../../packed.ts';
import { CELLS_MAX } from './cells.ts';

/** What the head says of the view: in which round of the gatherer each cell was written last. Rounds begin at 1. */
export interface HeadBody {
  readonly round: number;
  /** Live processes. */
  readonly leases: number;
  readonly records: readonly number[];
  readonly loads: readonly number[];
  /** 0 = there is no catalogue. */
  readonly catalogue: number;
}

const VERSION = 1;

/** Rounds are written as how long ago they were: 130 cells take 150 to 400 bytes. */
export function packHead({ round, leases, records, loads, catalogue }: HeadBody): Uint8Array {
  const writer = new PackedWriter();
  writer.byte(VERSION);
  writer.count(round);
  writer.count(leases);
  writer.count(round - catalogue);
  for (const versions of [records, loads]) {
    writer.count(versions.length);
    for (const version of versions) writer.count(round - version);
  }
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
    return { round, leases, catalogue, records: readVersions(), loads: readVersions() };
  } catch {
    return undefined;
  }
}
