import { reasonOf } from '../errors/index.ts';
import { PackedReader, PackedWriter } from './packed.ts';
import type { FleetLoads, RankLoad, ReportProblem, Watch, WorkerLoad } from './types.ts';

/** Largest number of ranks of one worker: each costs an entry in every router. */
const RANKS_MAX = 1024;
/** Largest number of workers that one process may report. */
const WORKERS_MAX = 1024;
const VERSION = 1;
const DRAINING = 1;

/**
 * Packs the loads of the workers of one process, by instance id, as its lease carries them. Sixteen ranks take 100 to
 * 250 bytes:
 *
 *   version | workers x ( id | flags | ranks x ( rank | requests | decode blocks | prefill tokens ) )
 */
export function packLoads(loads: ReadonlyMap<string, WorkerLoad>): Uint8Array {
  const writer = new PackedWriter();
  writer.byte(VERSION);
  for (const [instanceId, { ranks, isDraining }] of loads) {
    writer.hex(instanceId);
    writer.byte(isDraining ? DRAINING : 0);
    writer.count(ranks.length);
    for (const { dpRank, requests, decodeBlocks, prefillTokens } of ranks) {
      writer.count(dpRank);
      writer.count(requests);
      writer.count(decodeBlocks);
      writer.count(prefillTokens);
    }
  }
  return writer.finish();
}

/** Reverses `packLoads`. Returns undefined for bytes that it cannot have made, or that are out of bounds. */
export function unpackLoads(bytes: Uint8Array): readonly (readonly [string, WorkerLoad])[] | undefined {
  const loads: [string, WorkerLoad][] = [];
  try {
    const reader = new PackedReader(bytes);
    if (reader.byte() !== VERSION) return undefined;
    while (!reader.isAtEnd) {
      if (loads.length === WORKERS_MAX) return undefined;
      const instanceId = reader.hex();
      const isDraining = (reader.byte() & DRAINING) !== 0;
      const ranks: RankLoad[] = [];
      for (let left = reader.count(RANKS_MAX); left > 0; left--) {
        ranks.push({
          dpRank: reader.count(RANKS_MAX),
          requests: reader.count(),
          decodeBlocks: reader.count(),
          prefillTokens: reader.count(),
        });
      }
      loads.push([instanceId, { ranks, isDraining }]);
    }
  } catch {
    return undefined; // cut short or out of bounds: written by a faulty process
  }
  return loads;
}

const EMPTY = new Uint8Array();
const AMOUNTS = ['requests', 'decodeBlocks', 'prefillTokens'] as const;

/** Loads of the workers of this process, as its lease reports them. */
export class OwnLoads {
  readonly #loads = new Map<string, WorkerLoad>(); // at most WORKERS_MAX
  #packed: Uint8Array = EMPTY;

  /** Packed loads; no bytes while there is no load. The same array until something changes. */
  get packed(): Uint8Array {
    return this.#packed;
  }

  /**
   * Sets the load of a worker. Returns true if that changed the report. Throws a `RangeError` for an invalid load, and
   * then changes nothing.
   */
  set(instanceId: string, load: WorkerLoad): boolean {
    assertTellable(instanceId, load);
    if (this.#loads.size >= WORKERS_MAX && !this.#loads.has(instanceId)) {
      throw new RangeError(`load of worker ${instanceId}: a process reports at most ${WORKERS_MAX} workers`);
    }
    const ranks = load.ranks.map(toWhole);
    this.#loads.set(instanceId, { ranks, isDraining: load.isDraining });
    return this.#pack();
  }

  /** Removes a load. Returns true if there was one. */
  delete(instanceId: string): boolean {
    return this.#loads.delete(instanceId) && this.#pack();
  }

  #pack(): boolean {
    const packed = this.#loads.size === 0 ? EMPTY : packLoads(this.#loads);
    if (Buffer.compare(packed, this.#packed) === 0) return false;
    this.#packed = packed;
    return true;
  }
}

function toWhole({ dpRank, requests, decodeBlocks, prefillTokens }: RankLoad): RankLoad {
  return {
    dpRank,
    requests: Math.ceil(requests),
    decodeBlocks: Math.ceil(decodeBlocks),
    prefillTokens: Math.ceil(prefillTokens),
  };
}

function assertTellable(instanceId: string, { ranks }: WorkerLoad): void {
  const where = `load of worker ${instanceId}`;
  if (!/^[0-9a-f]{1,16}$/.test(instanceId)) throw new RangeError(`${where}: ids are 1 to 16 lower-case hex digits`);
  if (ranks.length > RANKS_MAX)
    throw new RangeError(`${where}: ${ranks.length} ranks, at most ${RANKS_MAX} are allowed`);
  for (const rank of ranks) {
    if (!Number.isInteger(rank.dpRank) || rank.dpRank < 0 || rank.dpRank > RANKS_MAX) {
      throw new RangeError(`${where}: rank ${rank.dpRank}, allowed are 0 to ${RANKS_MAX}`);
    }
    for (const name of AMOUNTS) {
      const value = rank[name];
      if (value >= 0 && value <= Number.MAX_SAFE_INTEGER) continue;
      throw new RangeError(`${where}: ${name} of rank ${rank.dpRank} is ${value}, allowed are 0 to 2^53 - 1`);
    }
  }
}

/** A value with listeners, which are called at once and whenever another value is set. */
export class Told<Value> {
  readonly #what: string;
  readonly #report: ReportProblem;
  readonly #listeners = new Set<{ readonly tell: (value: Value) => void }>();
  #value: Value;

  /** @param what name of the value for the report about a listener that throws */
  constructor(value: Value, what: string, report: ReportProblem) {
    this.#value = value;
    this.#what = what;
    this.#report = report;
  }

  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
    for (const { tell } of this.#listeners) this.#tell(tell);
  }

  /** Calls the listener with the current value before it returns. */
  add(tell: (value: Value) => void): Watch {
    const listener = { tell }; // a separate object, because the same function may be added twice
    this.#listeners.add(listener);
    this.#tell(tell);
    return { close: () => void this.#listeners.delete(listener) };
  }

  close(): void {
    this.#listeners.clear();
  }

  #tell(tell: (value: Value) => void): void {
    try {
      tell(this.#value);
    } catch (error) {
      // The other listeners continue.
      this.#report(new Error(`a listener for ${this.#what} failed: ${reasonOf(error)}`, { cause: error }));
    }
  }
}

/** Returns the loads that one process reports of its workers; undefined if they cannot be read. */
interface Row {
  readonly bytes: Uint8Array;
  readonly loads: readonly (readonly [string, WorkerLoad])[] | undefined;
}

/** Loads of all live processes as last read, with listeners. */
export class LoadBoard extends Told<FleetLoads> {
  readonly #report: ReportProblem;
  #rows: ReadonlyMap<string, Row> = new Map(); // by lease id
  #unreadable = '';

  constructor(report: ReportProblem) {
    super(new Map(), 'loads', report);
    this.#report = report;
  }

  /** @param packed loads of every live process, by lease id; the arrays are kept and must not be changed afterwards */
  show(packed: ReadonlyMap<string, Uint8Array>): void {
    const rows = new Map<string, Row>();
    let isChanged = packed.size !== this.#rows.size;
    for (const [lease, bytes] of packed) {
      const before = this.#rows.get(lease);
      const isSame = before !== undefined && (before.bytes === bytes || Buffer.compare(before.bytes, bytes) === 0);
      isChanged ||= !isSame;
      rows.set(lease, isSame ? before : { bytes, loads: unpackLoads(bytes) });
    }
    if (!isChanged) return;
    this.#rows = rows;
    const loads = new Map<string, WorkerLoad>();
    for (const row of rows.values()) for (const [id, load] of row.loads ?? []) loads.set(id, load);
    this.#reportUnreadable([...rows].flatMap(([lease, row]) => (row.loads === undefined ? [lease] : [])));
    this.set(loads);
  }

  #reportUnreadable(leases: readonly string[]): void {
    const unreadable = leases.slice(0, 8).join(', ');
    if (unreadable !== '' && unreadable !== this.#unreadable) {
      this.#report(new Error(`unreadable loads in ${leases.length} leases: ${unreadable}`));
    }
    this.#unreadable = unreadable;
  }
}
