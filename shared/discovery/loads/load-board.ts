import { reasonOf } from '../../errors/index.ts';
import type { ReportProblem } from '../snapshot-watcher.ts';
import type { FleetLoads, Watch, WorkerLoad } from '../types.ts';
import { unpackLoadsInto } from './load-bytes.ts';

type LoadsListener = (loads: FleetLoads) => void;

/** The loads of all live processes as last read, for those who follow them. */
export class LoadBoard {
  readonly #report: ReportProblem;
  readonly #listeners = new Set<{ readonly tell: LoadsListener }>();
  #rows: ReadonlyMap<string, Uint8Array> = new Map(); // by lease id
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

  /** @param rows packed loads of every live process, by lease id; kept, and not to be changed afterwards */
  show(rows: ReadonlyMap<string, Uint8Array>): void {
    const isSame =
      rows.size === this.#rows.size && [...rows].every(([lease, bytes]) => isEqual(bytes, this.#rows.get(lease)));
    this.#rows = rows;
    if (isSame) return;
    const loads = new Map<string, WorkerLoad>();
    const unreadable = [...rows].filter(([, bytes]) => !unpackLoadsInto(loads, bytes)).map(([lease]) => lease);
    this.#reportUnreadable(unreadable);
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

function isEqual(one: Uint8Array, other: Uint8Array | undefined): boolean {
  return one === other || (other !== undefined && Buffer.compare(one, other) === 0);
}
