import { reasonOf } from '../../errors/index.ts';
import type { FleetLoads, Watch, WorkerLoad } from '../types.ts';
import type { ReportProblem } from '../watch-teller.ts';
import { unpackLoads } from './load-bytes.ts';

type LoadsListener = (loads: FleetLoads) => void;

/** What one process says of its workers; undefined when it cannot be read. */
interface Row {
  readonly bytes: Uint8Array;
  readonly loads: readonly (readonly [string, WorkerLoad])[] | undefined;
}

/** The loads of all live processes as last read, for those who follow them. */
export class LoadBoard {
  readonly #report: ReportProblem;
  readonly #listeners = new Set<{ readonly tell: LoadsListener }>();
  #rows: ReadonlyMap<string, Row> = new Map(); // by lease id
  #loads: FleetLoads = new Map();
  #unreadable = '';

  constructor(report: ReportProblem) {
    this.#report = report;
  }

  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  get loads(): FleetLoads {
    return this.#loads;
  }

  /** @param packed loads of every live process, by lease id; the arrays are kept, and not to be changed afterwards */
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
    this.#loads = loads;
    for (const listener of this.#listeners) this.#tell(listener.tell);
  }

  /** Tells the present loads before it returns. */
  add(tell: LoadsListener): Watch {
    const listener = { tell }; // an object of its own: the same function may be added twice
    this.#listeners.add(listener);
    this.#tell(tell);
    return { close: () => void this.#listeners.delete(listener) };
  }

  close(): void {
    this.#listeners.clear();
  }

  #tell(tell: LoadsListener): void {
    try {
      tell(this.#loads);
    } catch (error) {
      this.#report(new Error(`a listener for loads failed: ${reasonOf(error)}`, { cause: error })); // others go on
    }
  }

  #reportUnreadable(leases: readonly string[]): void {
    const unreadable = leases.slice(0, 8).join(', ');
    if (unreadable !== '' && unreadable !== this.#unreadable) {
      this.#report(new Error(`unreadable loads in ${leases.length} leases: ${unreadable}`));
    }
    this.#unreadable = unreadable;
  }
}
